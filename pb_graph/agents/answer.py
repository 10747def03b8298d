"""Get one answer of a chat model within a budget.

`Answer` calls the model, and finishes an answer that its cap cut off in a second call. `charged`
returns a model whose every call is reserved, capped, sent and settled.
"""
# ruff: noqa: ANN401 -- LangChain's run managers, contents and arguments

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.exceptions import ModelError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.messages.ai import add_usage
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult
from pydantic import PrivateAttr

from pb_graph import errors
from pb_graph.agents.notes import (
    NOTES,
    USED_UP,
    appended,
    joined,
    recall_notes,
    remember_note,
    unfinished,
    without_tool_calls,
)
from pb_graph.budget.account import Budget, Reservation
from pb_graph.budget.bill import Bill
from pb_graph.budget.rates import MAX_TOKENS
from pb_graph.errors import InputError
from pb_graph.models.caps import policy_for
from pb_graph.models.input_bound import bound_input, learn_input
from pb_graph.models.options import (
    CallOptions,
    StreamWatch,
    Thinking,
    answers_in,
    calls_of,
    caps_in,
    copy_for_calls,
    key_of,
    least_cap,
    ls_params_of,
    without_caps,
)
from pb_graph.models.provider_errors import explain, refuses_stream_options
from pb_graph.models.reply import ASYNC, BLOCKING, IO, attempt, finish_of, run_sync
from pb_graph.run.pause import Decision
from pb_graph.run.tools import without_tools

FINISH = "The token budget is nearly used up. Give your best final answer now, in brief."
_STOPPED = "The token budget is used up, and the run was stopped."
_GO_ON = "What you wrote stays above it: go on there, and repeat nothing."
_TOOL_SETTINGS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
_LOW = 0.2  # share of a budget: with less left, the model is told to finish
_MIN_PAUSED = 256  # fewest completion tokens worth a call, where a run can pause or wait instead
# Fewest completion tokens worth a call, a last answer, and the end of an answer; and the shares of
# a small budget that are worth as much.
_MIN_CALL, _MIN_ANSWER, _MIN_ENDING = (64, 0.3), (32, 0.1), (16, 0.1)


class BudgetUsedUpError(errors.BudgetUsedUpError, ModelError):
    """An agent's call was not made; for LangChain, it is not worth a retry."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limit what the calls for one request may spend.

    Attributes:
        accounts: Accounts that each call reserves in, one of each tree.
        keep: Amount that the first account keeps for the finishing call, in its unit.
        per_call: Completion tokens of a single call; `None` for no limit of its own.
        at_least: Fewest completion tokens that are worth a call.
        wait_for: Completion tokens worth waiting for while other calls may return some.
        thinking: How much the model may think before it answers.
        tell_every: Rounds of tool calls between two notes about the remaining budget. 0: only when
            little is left. `None`: no note.
    """

    accounts: tuple[Budget, ...]
    keep: float = 0
    per_call: int | None = None
    at_least: int = 1
    wait_for: int = 1
    thinking: Thinking = "bounded"
    tell_every: int | None = None

    def within(self, accounts: tuple[Budget, ...], per_call: int | None) -> CallLimits:
        """Return these limits and those of further accounts of other trees.

        Args:
            accounts: Further accounts.
            per_call: Completion tokens of a single call; `None` for no further limit.
        """
        roots = {account.line[-1] for account in self.accounts}
        others = [account for account in accounts if account.line[-1] not in roots]
        cap = min((limit for limit in (self.per_call, per_call) if limit), default=None)
        return replace(self, accounts=(*self.accounts, *others), per_call=cap)


def charged(model: Any, limits: CallLimits) -> BaseChatModel:
    """Return a copy of a model, of the same class, whose calls are charged to accounts.

    Args:
        model: The chat model. A `BudgetedChatModel` adds its own account and limit.
        limits: What its calls may spend.

    Raises:
        InputError: If the model is no chat model, such as a configurable one.
    """
    if not isinstance(model, BaseChatModel):
        msg = f"{type(model).__name__} is not a chat model. Give the agent a model by its name."
        raise InputError(msg)
    if own := getattr(model, "account_and_limit", None):  # a BudgetedChatModel
        account, per_call = own
        plain: Any = model
        return charged(plain.plain, limits.within((account,) if account else (), per_call))
    if uncharged := getattr(model, "uncharged", None):
        model = uncharged()
    # The plain model streams, and reads and fills its cache; the copy around it must not.
    changed = {"cache": False, "disable_streaming": True, "rate_limiter": None}
    own_fields = {name: getattr(model, name) for name in changed}
    made: BaseChatModel = model.model_copy(update=changed)
    kind: Any = type(model)
    made.__class__ = _charged_class(kind)
    private = made.__pydantic_private__ or {}
    made.__pydantic_private__ = {**private, "_limits": limits, "_own": own_fields}
    return made


@lru_cache
def _charged_class(kind: type[Any]) -> type[Any]:
    """Return a subclass of a model's class that charges its calls; middleware asks for classes."""

    class Charged(kind):  # type: ignore[misc]
        _limits: Any = PrivateAttr()
        _own: Any = PrivateAttr()

        def _generate(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **settings: Any
        ) -> ChatResult:
            call = self._agenerate(messages, stop, run_manager, io=BLOCKING, **settings)
            return run_sync(call)

        async def _agenerate(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **settings: Any
        ) -> ChatResult:
            io = settings.pop("io", ASYNC)
            call = (self.uncharged(), messages, stop, run_manager, settings, io)
            message = await call_within(self._limits, *call)
            return ChatResult(generations=[ChatGeneration(message=message)])

        def uncharged(self) -> BaseChatModel:
            plain: BaseChatModel = self.model_copy(update=self._own)
            plain.__class__ = kind
            return plain

    Charged.__name__, Charged.__qualname__ = kind.__name__, kind.__qualname__
    Charged.__module__ = kind.__module__
    return Charged


async def call_within(  # noqa: C901, PLR0913, PLR0917 -- those of LangChain's models, and the limits
    limits: CallLimits,
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    stop: list[str] | None,
    run_manager: Any,
    settings: dict[str, Any],
    io: IO,
) -> AIMessage:
    """Reserve, cap, send and settle one call. All tokens of agents are spent here.

    Args:
        limits: What the call may spend.
        model: The chat model, without a budget.
        messages: The prompt.
        stop: Texts at which the model stops.
        run_manager: The run of the call, for callbacks and streams.
        settings: The other arguments of the call.
        io: How to wait, `BLOCKING` or `ASYNC`.

    Raises:
        BudgetUsedUpError: If an account has too little left.
        InputError: If the call asks for several answers.
    """
    made = _prepared(model)
    cap = _cap(model, vars(model) | settings, limits.per_call)
    call, watch = Bill(made.key), StreamWatch(made.provider)
    account, prompt = limits.accounts[0], list(messages)
    if account in NOTES:
        prompt = recall_notes(account, messages)
    needs_input = any(account.needs_input for account in limits.accounts)
    if needs_input:
        call = await io.load(_bound, made.model, prompt, settings, limits)

    async def send(reservation: Reservation) -> AIMessage:
        nonlocal prompt
        if note := _note(prompt, limits, reservation):
            remember_note(account, messages, note)
            prompt = [*prompt[:-1], appended(prompt[-1], note)]
        arguments = made.arguments(settings, reservation.tokens, limits.thinking)
        manager = copy(run_manager)
        manager.handlers = [*run_manager.handlers, watch]
        try:
            result = await io.call(*calls_of(made.model), prompt, stop, manager, **arguments)
        except Exception as error:
            if not refuses_stream_options(made.model, error):
                raise
            made.model = made.model.model_copy(update={"stream_usage": False})
            result = await io.call(*calls_of(made.model), prompt, stop, manager, **arguments)
        watch.on_llm_end(LLMResult(generations=[result.generations]), run_id=run_manager.run_id)
        message: AIMessage = result.generations[0].message
        return message

    try:
        done = await attempt(
            send,
            limits.accounts,
            cap,
            call,
            messages,
            watch,
            io,
            keep=limits.keep,
            at_least=min(max(limits.at_least, made.least_cap), cap or MAX_TOKENS),
            wait_for=limits.wait_for,
        )
    except errors.BudgetUsedUpError as error:
        error.__class__ = BudgetUsedUpError
        raise
    if done.message is not None:
        if needs_input and done.tokens:
            learn_input(made.model, prompt, settings, done.message, done.tokens)
        return done.message
    if type(done.error).__name__ == "LengthFinishReasonError":  # OpenAI's client cannot parse it
        usage = done.tokens.usage() if done.tokens and done.tokens.is_measured else None
        return AIMessage("", usage_metadata=usage, response_metadata={"finish_reason": "length"})
    explain(done.error, model)  # type: ignore[arg-type]
    raise done.error  # type: ignore[misc]


class _Prepared:
    """A chat model whose caps are those of its calls, and which never repeats a request itself."""

    def __init__(self, model: BaseChatModel) -> None:
        self._source = model  # keeps the values alive, whose ids are its key
        self.key, self.least_cap, self.policy = key_of(model), least_cap(model), policy_for(model)
        self.provider = ls_params_of(model)().get("ls_provider") or ""
        self.model = copy_for_calls(model)

    def arguments(self, given: dict[str, Any], cap: int, thinking: Thinking) -> dict[str, Any]:
        """Return the arguments of a call with its cap, as the model's provider expects it."""
        settings = without_caps(given)
        # Settings of this call, such as an effort, count as settings of the model.
        known = settings.keys() & type(self.model).model_fields.keys()
        model = self.model.model_copy(update={name: settings[name] for name in known})
        arguments = self.policy(model, CallOptions(cap, timeout=math.inf, thinking=thinking))
        arguments.pop("timeout", None)  # the host sets it
        return {**settings, **arguments}


_PREPARED: dict[tuple[Any, ...], _Prepared] = {}
_MAX_PREPARED = 100


def _prepared(model: BaseChatModel) -> _Prepared:
    """Return a model as it is called; a model with the same fields is prepared once."""
    identity = type(model), *(id(vars(model).get(name)) for name in type(model).model_fields)
    if (made := _PREPARED.get(identity)) is None:
        made = _PREPARED[identity] = _Prepared(model)
        if len(_PREPARED) > _MAX_PREPARED:
            _PREPARED.pop(next(iter(_PREPARED)), None)
    return made


def _cap(model: BaseChatModel, given: dict[str, Any], per_call: int | None) -> int | None:
    """Return the smallest limit of a call's completion tokens; refuse several answers at once."""
    if (several := answers_in(given)) > 1:
        msg = f"A call for {several} answers may cost {several} caps. Make {several} calls instead."
        raise InputError(msg)
    profile: Any = model.profile or {}
    caps = [*caps_in(given), per_call, profile.get("max_output_tokens")]
    return min([limit for limit in caps if limit], default=None)


def _bound(
    model: BaseChatModel, prompt: list[BaseMessage], settings: dict[str, Any], limits: CallLimits
) -> Bill:
    """Return the bound of a call's input, with the longest note that may be added."""
    if limits.tell_every is not None and isinstance(prompt[-1], HumanMessage | ToolMessage):
        total = limits.accounts[0].rate.text(limits.accounts[0].total)
        note = f"Remaining budget: {total} of {total}. {total}"
        prompt = [*prompt[:-1], appended(prompt[-1], note)]
    is_learned = all(account.is_learned for account in limits.accounts)
    return bound_input(model, prompt, settings, is_learned=is_learned)


def _note(
    messages: Sequence[BaseMessage], limits: CallLimits, reservation: Reservation
) -> str | None:
    """Return a line about the remaining budget, if one is due."""
    first, last = limits.accounts[0], messages[-1] if messages else None
    if limits.tell_every is None or not isinstance(last, HumanMessage | ToolMessage):
        return None
    # Read now: other calls may have returned tokens while this call waited.
    left = min(account.left for account in limits.accounts if account.unit == first.unit)
    left += first.rate.cost(reservation.most) / first.rate.scale
    if left <= _LOW * first.total:
        return f"Remaining budget: {first.rate.text(left)}. Finish this task now."
    rounds = sum(isinstance(m, AIMessage) and bool(m.tool_calls) for m in messages)
    is_due = isinstance(last, ToolMessage) and limits.tell_every
    if not is_due or rounds % limits.tell_every:
        return None
    return f"Remaining budget: {first.rate.text(left)} of {first.rate.text(first.total)}."


@dataclass
class Answer:
    """One answer to a request: a call, and a finishing call if its cap cut the answer off.

    Attributes:
        request: The request, as LangChain's agents make it.
        limits: What each call may spend.
        ask: Makes one call within limits.
        reserve: Amount that is kept for the finishing call, in the unit of the first account.
        last_accounts: Returns the accounts for the finishing call, if a part was set aside for it.
        by_tool: Whether the final answer is a tool call; the finishing call then keeps its tools.
        on_used_up: Decides what follows when only the reserve is left. `None` for a last answer.
        decision: The decision of a run that has paused here before.
    """

    request: ModelRequest[Any]
    limits: CallLimits
    ask: Callable[[ModelRequest[Any], CallLimits], Awaitable[ModelResponse[Any]]]
    reserve: float = 0
    last_accounts: Callable[[], tuple[Budget, ...]] | None = None
    by_tool: bool = False
    on_used_up: Callable[[BudgetUsedUpError], Awaitable[Decision]] | None = None
    decision: Decision | None = None

    async def respond(self) -> ModelResponse[Any]:
        """Return the model's answer or tool calls.

        Tool calls that were cut off are dropped. An answer that stays unfinished says so in its
        metadata. If the budget is used up, the response is a message that says so.

        Raises:
            BudgetUsedUpError: If the budget is used up and the model's own arguments ask for
                structured output, which a plain message is not.
        """
        is_dollars = self.limits.accounts[0].unit == "dollars"
        enough = _MIN_PAUSED if is_dollars else max(1, int(self.reserve))
        least = min(_MIN_PAUSED, enough) if self.on_used_up else self._least(*_MIN_CALL)
        limits = replace(self.limits, at_least=least, wait_for=max(enough, _MIN_PAUSED))
        response: ModelResponse[Any] | None = None
        decision = self.decision
        while decision in (None, "raise"):
            try:
                response = await self._ask(self.request, limits)
                break
            except BudgetUsedUpError as error:
                asks = self.on_used_up if decision is None else None  # a pause is asked for once
                decision = await asks(error) if asks else "finish"
        if decision == "stop":
            return ModelResponse([AIMessage(_STOPPED, response_metadata=USED_UP)])
        if response and finish_of(_message(response)) != "length":
            return response
        return await self._finish(response)

    async def _finish(self, response: ModelResponse[Any] | None) -> ModelResponse[Any]:
        """Return the final answer, out of the reserve, after what was written so far."""
        limits = replace(
            self.limits,
            accounts=self.last_accounts() if self.last_accounts else self.limits.accounts,
            keep=0,
            at_least=self._least(*(_MIN_ENDING if response else _MIN_ANSWER)),
            thinking="off",
            tell_every=None,
        )
        try:
            final = await self._ask(self._ending(response), limits)
            if not self._is_typed and _message(final).tool_calls:  # it was given no tools
                final = _with(final, without_tool_calls(_message(final)))
        except BudgetUsedUpError as error:
            if self.by_tool or "response_format" in self.request.model_settings:
                raise
            cut = unfinished(_message(response) if response else None, error.note)
            return _with(response, cut) if response else ModelResponse([cut])
        except Exception:
            if response is None or self._is_typed or not _message(response).text:
                raise
            return _with(response, unfinished(_message(response)))  # its tokens are paid for
        final = self._join(response, final) if response else final
        is_cut = not self._is_typed and finish_of(_message(final)) == "length"
        return _with(final, unfinished(_message(final))) if is_cut else final

    async def _ask(self, request: ModelRequest[Any], limits: CallLimits) -> ModelResponse[Any]:
        try:
            response = await self.ask(request, limits)
        except Exception as error:
            answer = getattr(error, "ai_message", None)  # LangChain cannot parse the output
            if answer is None or finish_of(answer) != "length":
                raise
            return ModelResponse([without_tool_calls(answer)])
        answer = _message(response)
        is_cut = finish_of(answer) == "length"
        return ModelResponse([without_tool_calls(answer)]) if is_cut else response

    def _least(self, tokens: int, share: float) -> int:
        """Return the fewest tokens worth a call; less if the whole budget is small."""
        root = self.limits.accounts[0].line[-1]
        small = int(root.total * share) if root.unit == "completion tokens" else tokens
        return max(1, min(tokens, small))

    @property
    def _is_typed(self) -> bool:
        """Return whether the answer is structured, so that it must come in one piece."""
        formats = self.request.response_format, self.request.model_settings.get("response_format")
        return self.by_tool or any(form is not None for form in formats)

    def _ending(self, response: ModelResponse[Any] | None) -> ModelRequest[Any]:
        """Return the request for a final answer, without tools and after the text so far.

        Tool calls and results stand in it as text, because servers refuse them without tools.
        """
        settings, messages = self.request.model_settings, self.request.messages
        dropped = frozenset[str]()
        if not self.by_tool:
            dropped, messages = _TOOL_SETTINGS, without_tools(messages, shortened=False)
        partial = _message(response).text if response and not self._is_typed else ""
        if partial:
            messages = [*messages, AIMessage(partial), HumanMessage(f"{FINISH} {_GO_ON}")]
        elif messages and isinstance(messages[-1], HumanMessage):
            messages = [*messages[:-1], appended(messages[-1], FINISH)]
        else:
            messages = [*messages, HumanMessage(FINISH)]
        return self.request.override(
            messages=messages,
            tools=[],
            tool_choice=None,
            model_settings={name: settings[name] for name in settings.keys() - dropped},
        )

    def _join(self, response: ModelResponse[Any], final: ModelResponse[Any]) -> ModelResponse[Any]:
        """Return both answers as one message with the usage of both calls.

        A structured answer is whole in the second response.
        """
        first, second = _message(response), _message(final)
        content: Any = second.content
        if first.text and not self._is_typed and final.structured_response is None:
            content = joined(first.content, content) if content else first.content
        usage = [answer.usage_metadata for answer in (first, second)]
        update = {"content": content, "usage_metadata": add_usage(*usage) if any(usage) else None}
        return _with(final, second.model_copy(update=update))


def reserve_of(account: Budget, fraction: float, model: str = "", usage: Any = None) -> float:
    """Return the amount to keep for a final answer: dollars, or whole tokens, rounded up.

    Args:
        account: The account.
        fraction: The least share of its total, from 0 to 1.
        model: Key of the model.
        usage: Usage of its last call. If the input counts, the final prompt is expected to be twice
            as long as the conversation so far, and at most half of the total is kept.
    """
    share = account.total * fraction
    if usage and account.rate.needs_input:
        size = 2 * (usage["input_tokens"] + usage["output_tokens"])
        ending = (
            account.rate.cost(Bill(model, input=size, output=_MIN_CALL[0])) / account.rate.scale
        )
        share = max(share, min(ending, account.total / 2))
    return share if account.unit == "dollars" else math.ceil(share)


def _message(response: ModelResponse[Any]) -> AIMessage:
    return next(message for message in response.result if isinstance(message, AIMessage))


def _with(response: ModelResponse[Any], message: AIMessage) -> ModelResponse[Any]:
    """Return a response with another message of the model."""
    before = _message(response)
    return replace(response, result=[message if m is before else m for m in response.result])
