"""Call a chat model within a budget, and finish an answer that was cut off in a second call."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal, Self
from uuid import UUID

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain.agents.structured_output import OutputToolBinding
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.ai import add_usage
from langchain_core.outputs import LLMResult
from langchain_core.tracers.context import register_configure_hook

from pb_graph.budget.account import Budget, Reservation, Wishes
from pb_graph.budget.bill import Bill, spending_of
from pb_graph.budget.rates import MOST_TOKENS
from pb_graph.errors import BudgetUsedUpError, InputError
from pb_graph.models.caps import (
    answers_in,
    caps_in,
    constructor_overrides,
    least_cap,
    policy_for,
    refuses_stream_options,
    without_caps,
)
from pb_graph.models.chat_models import copy_for_attempts, key_of
from pb_graph.models.client import settle_failed
from pb_graph.models.input_bound import bound_input
from pb_graph.models.options import CallOptions, Thinking
from pb_graph.models.reply import (
    IO,
    StreamWatch,
    finish_of,
    replies_in,
    tokens_of,
    tokens_of_error,
)
from pb_graph.run.pause import Decision

FINISH = "The token budget is nearly used up. Give your best final answer now, in brief."
_STOPPED = "The token budget is used up, and the run was stopped."
_USED_UP: dict[str, Any] = {"finish_reason": "stop", "budget_used_up": True}
_GO_ON = "What you wrote stays above it: go on there, and repeat nothing."
_TOOL_SETTINGS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
_NOTE = 200  # input tokens to allow for a line that is added to a request
_LOW = 0.2  # share of a budget: with less left, the model is told to finish
_LEAST = 256  # fewest completion tokens worth a call, where a run can pause instead

Ask = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


@dataclass
class BudgetedRequest:
    """A request to a chat model, with the accounts that its calls are charged to.

    Attributes:
        request: The request, as LangChain's agents make it.
        accounts: Accounts that each call reserves in. Notes to the model state the first one.
        keep: Amount that the first account keeps for the finishing call, in its unit.
        per_call: Completion tokens of a single call; `None` for no limit of its own.
        tell_every: Rounds of tool calls between two notes about the remaining budget. 0: only when
            little is left.
        last: Accounts for the finishing call, if a part was set aside for it.
        by_tool: Whether the final answer is a tool call; the finishing call then keeps its tools.
        on_used_up: Decides what follows when only the reserve is left. `None` for a last answer.
    """

    request: ModelRequest[Any]
    accounts: tuple[Budget, ...]
    keep: float = 0
    per_call: int | None = None
    tell_every: int = 1
    last: tuple[Budget, ...] = ()
    by_tool: bool = False
    on_used_up: Callable[[BudgetUsedUpError], Decision] | None = None

    async def respond(self, ask: Ask, io: IO) -> ModelResponse[Any]:
        """Return the model's answer or tool calls.

        An answer that its cap cut off is finished by a second call, without tools. Tool calls that
        were cut off are dropped. If the budget is used up, the response is a message that says so.

        Args:
            ask: Makes one call.
            io: How to wait for tokens.

        Raises:
            BudgetUsedUpError: If the budget is used up and the model's own arguments ask for
                structured output, which a plain message is not.
            InputError: If the request asks for several answers, or its model is no chat model.
        """
        _check(self.request)
        outcome = await self._reserve_or_decide(io)
        if outcome == "stop":
            return ModelResponse([AIMessage(_STOPPED, response_metadata=_USED_UP)])
        response: ModelResponse[Any] | None = None
        if outcome != "finish":
            with suppress(BudgetUsedUpError):
                response = await self._ask(ask, self._with_note(outcome), outcome, keep=self.keep)
        if response and finish_of(_answer(response)) != "length":
            return response
        try:
            fuller = max(self.accounts, self.last or self.accounts, key=lambda group: group[0].left)
            ending = self._ending(response)
            reservation = await self._reserve(io, fuller, ending)
            final = await self._ask(ask, ending, reservation, thinking="off")
        except BudgetUsedUpError as error:
            if self.by_tool or "response_format" in self.request.model_settings:
                raise
            return response or ModelResponse([AIMessage(error.note, response_metadata=_USED_UP)])
        except Exception:
            if response is None or self._is_typed or not _answer(response).text:
                raise
            return response  # its tokens are paid for
        return self._join(response, final) if response else final

    async def _reserve_or_decide(self, io: IO) -> Reservation | Literal["finish", "stop"]:
        """Reserve the call, or return the decision on how to end without it."""
        minimum = min(_LEAST, self._enough) if self.on_used_up else 1
        for decide in (self.on_used_up, None):
            try:
                return await self._reserve(io, self.accounts, self.request, self.keep, minimum)
            except BudgetUsedUpError as error:
                decision = decide(error) if decide else "finish"
                if decision != "raise":
                    return decision
        return "finish"

    async def _reserve(
        self,
        io: IO,
        accounts: tuple[Budget, ...],
        request: ModelRequest[Any],
        keep: float = 0,
        minimum: int = 1,
    ) -> Reservation:
        caps = caps_in(vars(self.request.model) | self.request.model_settings)
        profile: Any = getattr(request.model, "profile", None) or {}
        limits = [*caps, self.per_call, profile.get("max_output_tokens")]
        cap = min([limit for limit in limits if limit], default=None)
        call = Bill(key_of(request.model))
        if any(account.needs_input for account in accounts):
            call = await io.load(_bound, request, request.model)
        account, *also = accounts
        return await io.call(
            account.reserve,
            account.areserve,
            cap,
            keep=keep,
            at_least=min(max(minimum, least_cap(request.model)), cap or MOST_TOKENS),
            wait_for=self._enough,
            call=call,
            also=also,
        )

    async def _ask(
        self,
        ask: Ask,
        request: ModelRequest[Any],
        reservation: Reservation,
        *,
        keep: float = 0,
        thinking: Thinking = "bounded",
    ) -> ModelResponse[Any]:
        with reservation, _InnerCalls(reservation, keep, request) as calls:
            capped = _with_cap(request, reservation.tokens, thinking)
            try:
                try:
                    response = await ask(capped)
                except Exception as error:
                    if not refuses_stream_options(capped.model, error):
                        raise
                    without = capped.model.model_copy(update={"stream_usage": False})
                    response = await ask(capped.override(model=without))
            except Exception as error:
                calls.settle_failed(error)
                answer = getattr(error, "ai_message", None)  # LangChain cannot parse the output
                if type(error).__name__ == "LengthFinishReasonError":  # OpenAI's client cannot
                    answer = _unparsed(error)
                if answer is None or finish_of(answer) != "length":
                    raise
                return _drop_tool_calls(answer)
            answer = _answer(response)
            tokens = tokens_of(answer, capped.messages, reservation.tokens)
            calls.settle(tokens.most(calls.reservation.call))
        return _drop_tool_calls(answer) if finish_of(answer) == "length" else response

    @property
    def _enough(self) -> int:
        """Return the completion tokens to wait for while other calls may return unspent tokens."""
        reserve = self.keep or (self.last[0].total if self.last else 0)
        if reserve and self.accounts[0].unit == "dollars":
            return _LEAST
        return max(1, int(reserve))

    @property
    def _is_typed(self) -> bool:
        """Return whether the answer is structured, so that it must come in one piece."""
        formats = self.request.response_format, self.request.model_settings.get("response_format")
        return self.by_tool or any(form is not None for form in formats)

    def _with_note(self, reservation: Reservation) -> ModelRequest[Any]:
        """Return the request with a message about the remaining budget, if one is due."""
        first, request = self.accounts[0], self.request
        # Read now: other calls may have returned tokens while this call waited.
        left = min(account.left for account in self.accounts if account.unit == first.unit)
        left += first.rate.cost(reservation.most) / first.rate.scale
        if left <= _LOW * first.total:
            note = f"Remaining budget: {first.rate.text(left)}. Finish this task now."
            return _append_system_note(request, note)
        rounds = sum(isinstance(m, AIMessage) and bool(m.tool_calls) for m in request.messages)
        last = request.messages[-1] if request.messages else None
        if not isinstance(last, ToolMessage) or not self.tell_every or rounds % self.tell_every:
            return request
        note = f"Remaining budget: {first.rate.text(left)} of {first.rate.text(first.total)}."
        message = last.model_copy(update={"content": _joined(last.content, note)})
        return request.override(messages=[*request.messages[:-1], message])

    def _ending(self, response: ModelResponse[Any] | None) -> ModelRequest[Any]:
        """Return the request for a final answer, without tools and after the text so far."""
        settings = self.request.model_settings
        dropped = frozenset[str]() if self.by_tool else _TOOL_SETTINGS
        bare = self.request.override(
            tools=[],
            tool_choice=None,
            model_settings={name: settings[name] for name in settings.keys() - dropped},
        )
        partial = _answer(response).text if response and not self._is_typed else ""
        if not partial:
            return _append_system_note(bare, FINISH)
        messages: list[AnyMessage] = [AIMessage(partial), HumanMessage(f"{FINISH} {_GO_ON}")]
        return bare.override(messages=[*self.request.messages, *messages])

    def _join(self, response: ModelResponse[Any], final: ModelResponse[Any]) -> ModelResponse[Any]:
        """Return both answers as one message with the usage of both calls.

        A structured answer is whole in the second response.
        """
        first, second = _answer(response), _answer(final)
        content: Any = second.content
        if first.text and not self._is_typed and final.structured_response is None:
            content = _joined(first.content, content) if content else first.content
        usage = [answer.usage_metadata for answer in (first, second)]
        update = {"content": content, "usage_metadata": add_usage(*usage) if any(usage) else None}
        joined = second.model_copy(update=update)
        result = [joined if message is second else message for message in final.result]
        return replace(final, result=result)


class _InnerCalls(StreamWatch):
    """Track all model calls in the context, so that the budget holds in any order of middleware.

    An inner middleware may call the model again, or call another model. A call after a failed one
    reserves tokens of its own, and leaves `keep` untouched. All other calls are only counted.
    """

    raise_error = True

    def __init__(self, reservation: Reservation, keep: float, request: ModelRequest[Any]) -> None:
        super().__init__()
        self.reservation, self._keep = reservation, keep
        self._has_input = any(account.needs_input for account in reservation.accounts)
        # Bounds are compared in bytes, because a model's own token counter may be slow.
        self._most = _bound(request, reservation.call.model).input if self._has_input else 0
        self._counted: list[Bill] = []
        self._failed = False
        self._runs: dict[UUID, bool] = {}  # pending calls, and whether their reply has begun

    def on_chat_model_start(
        self,
        serialized: Any,  # noqa: ANN401, ARG002 -- LangChain's
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **about: Any,  # noqa: ANN401
    ) -> None:
        """Reserve tokens for a call after a failed call, or for a call that may cost more."""
        if parent_run_id in self._runs:
            return  # the wrapping model reports the usage of this call
        self._provider = (about.get("metadata") or {}).get("ls_provider") or ""
        call, reservation = self._call_of(messages[0], about), self.reservation
        if self._failed or call != reservation.call:
            if not self._failed:
                reservation.settle(0)
            account, *also = reservation.accounts
            cap = reservation.tokens  # the cap in the request
            wishes = Wishes(keep=self._keep, at_least=cap, call=call, also=also)
            self.reservation = account.reserve(cap, **wishes)
            self._failed = False
        self._runs[run_id] = False

    def _call_of(self, messages: list[BaseMessage], about: dict[str, Any]) -> Bill:
        """Return the model and the bound of a call that is about to be made.

        They equal the reserved ones, unless another middleware has changed the model or extended
        the prompt.
        """
        call, metadata = self.reservation.call, about.get("metadata") or {}
        name, provider = metadata.get("ls_model_name"), metadata.get("ls_provider")
        key = call.model if not name or name in call.model else f"{provider}:{name}"
        if not self._has_input:
            return replace(call, model=key)
        bound = bound_input(key, messages, about.get("invocation_params") or {})
        is_covered = key == call.model and bound.input <= self._most
        return call if is_covered else bound

    def on_llm_new_token(self, *token: Any, run_id: UUID, **about: Any) -> None:  # noqa: ANN401
        """Record that the reply has begun."""
        if run_id in self._runs:
            self._runs[run_id] = True
            super().on_llm_new_token(*token, run_id=run_id, **about)

    on_stream_event = on_llm_new_token  # LangGraph's streams of version 3

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # noqa: ANN401
        """Settle the failed call; a reply that broke off has an unknown bill."""
        if run_id in self._runs:
            self._failed = True
            if self._runs.pop(run_id) or not isinstance(error, Exception):
                self.reservation.forfeit()
            else:
                settle_failed(self.reservation, error)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:  # noqa: ANN401
        """Count the tokens of a call that succeeded."""
        if self._runs.pop(run_id, None) is not None:
            super().on_llm_end(response, run_id=run_id)
            replies = replies_in(response)
            call, cap = self.reservation.call, self.reservation.tokens
            self._counted += [tokens_of(reply, [], cap).most(call) for reply in replies]

    def settle(self, own: Bill) -> None:
        """Settle a call that has an answer; other calls may have been counted, too."""
        is_counted = sum(bill.output for bill in self._counted) >= own.output
        self.reservation.settle(self._counted if self._counted and is_counted else [own])

    def settle_failed(self, error: Exception) -> None:
        """Settle a call without an answer. Calls that were counted stay charged."""
        if self._failed:  # the last attempt is already settled
            for account in self.reservation.accounts:
                account.charge(spending_of(self._counted))
        elif self._counted:
            self.reservation.settle(self._counted)
        else:
            settle_failed(self.reservation, error)

    def __enter__(self) -> Self:
        self._before = _TRACKER.get()
        _TRACKER.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _TRACKER.set(self._before)
        self.reservation.forfeit()


_TRACKER: ContextVar[_InnerCalls | None] = ContextVar("pb_graph_inner_calls", default=None)
register_configure_hook(_TRACKER, inheritable=True)


def share_of(account: Budget, fraction: float) -> float:
    """Return a share of an account's total.

    Args:
        account: The account.
        fraction: The share, from 0 to 1.

    Returns:
        Dollars, or whole tokens, rounded up.
    """
    share = account.total * fraction
    return share if account.unit == "dollars" else math.ceil(share)


def tracked_accounts() -> tuple[Budget, ...]:
    """Return the accounts of the reserved call that encloses this one, if any."""
    tracker = _TRACKER.get()
    return tracker.reservation.accounts if tracker else ()


def _check(request: ModelRequest[Any]) -> None:
    """Raise InputError for a request whose calls have no cap."""
    model: object = request.model  # at run time perhaps a configurable model
    if not isinstance(model, BaseChatModel):
        msg = f"{type(model).__name__} is not a chat model. Give the agent a model by its name."
        raise InputError(msg)
    if (several := answers_in(vars(model) | request.model_settings)) > 1:
        msg = f"A call for {several} answers may cost {several} caps. Make {several} calls instead."
        raise InputError(msg)


def _with_cap(request: ModelRequest[Any], cap: int, thinking: Thinking) -> ModelRequest[Any]:
    """Return the request with the cap as its model expects it, and without SDK retries."""
    model = copy_for_attempts(request.model)
    settings = without_caps(request.model_settings)
    policy = policy_for(model)
    change = constructor_overrides(model)
    # Settings of this call, such as an effort, count as settings of the model.
    fields = {name: settings[name] for name in settings.keys() & type(model).model_fields.keys()}
    options = CallOptions(cap, timeout=math.inf, thinking=thinking)
    arguments = policy(model.model_copy(update=change | fields), options)
    arguments.pop("timeout", None)  # the host sets it
    return request.override(
        model=model.model_copy(update=change) if change else model,
        model_settings={**settings, **arguments},
    )


def _bound(request: ModelRequest[Any], model: BaseChatModel | str) -> Bill:
    """Return the bound of a request's input, with room for a note."""
    messages = [*filter(None, [request.system_message]), *request.messages]
    form: Any = request.response_format
    specs = getattr(form, "schema_specs", ())
    output_tools = [OutputToolBinding.from_schema_spec(spec).tool for spec in specs]
    tools = [*request.tools, *output_tools]
    schema = form.schema_spec.json_schema if hasattr(form, "schema_spec") else None
    arguments = {"tools": tools, "format": schema, **request.model_settings}
    bound = bound_input(model, messages, arguments)
    tokens = bound.input + _NOTE
    return replace(bound, input=tokens, written=tokens)


def _append_system_note(request: ModelRequest[Any], note: str) -> ModelRequest[Any]:
    message = request.system_message
    if message is None:
        return request.override(system_message=SystemMessage(note))
    content = _joined(message.content, note)
    return request.override(system_message=message.model_copy(update={"content": content}))


def _drop_tool_calls(message: AIMessage) -> ModelResponse[Any]:
    """Return a cut-off answer without its tool calls, because the last one may be incomplete."""
    update = {"content": str(message.text), "tool_calls": [], "invalid_tool_calls": []}
    return ModelResponse([message.model_copy(update=update)])


def _unparsed(error: Exception) -> AIMessage:
    """Return the cut-off answer behind an error of OpenAI's client, with its usage."""
    spent, usage = tokens_of_error(error), None
    if spent and spent.is_measured:
        usage = spent.usage()
    return AIMessage("", usage_metadata=usage, response_metadata={"finish_reason": "length"})


def _joined(first: Any, second: Any) -> Any:  # noqa: ANN401 -- text, or blocks
    """Join two contents. Blocks stay unchanged, because a prompt cache may know them."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    parts = [
        [{"type": "text", "text": part}] if isinstance(part, str) else part
        for part in (first, second)
    ]
    return [*parts[0], *parts[1]]


def _answer(response: ModelResponse[Any]) -> AIMessage:
    return next(message for message in response.result if isinstance(message, AIMessage))
