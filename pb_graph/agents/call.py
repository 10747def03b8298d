"""Get one answer of a chat model within accounts. All tokens of agents are spent here.

`charged` returns a model whose every call is reserved, capped, sent and settled. An `Answer` makes
one call, and a finishing call if the first was cut off by its cap.
"""
# ruff: noqa: ANN401 -- LangChain's run managers, contents and arguments

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import ModelError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import add_usage
from langchain_core.outputs import ChatGeneration, ChatResult

from pb_graph import errors
from pb_graph.agents import notes
from pb_graph.budget.account import Budget
from pb_graph.budget.bill import MAX_TOKENS, Bill, Reservation
from pb_graph.models.caps import adapted, policy_for
from pb_graph.models.input_bound import bound_input, digests_of, learn_input
from pb_graph.models.options import (
    CallOptions,
    answers_in,
    calls_of,
    caps_in,
    copy_for_calls,
    key_of,
    least_cap,
    without_caps,
)
from pb_graph.models.provider_errors import explain
from pb_graph.models.reply import ASYNC, BLOCKING, IO, Attempt, attempt, finish_of, run_sync
from pb_graph.run.resume import Decision
from pb_graph.run.tools import without_tools

FINISH = "The token budget is nearly used up. Give your best final answer now, in brief."
_STOPPED = "The token budget is used up, and the run was stopped."
_GO_ON = "What you wrote stays above it: go on there, and repeat nothing."
_TOOL_SETTINGS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
_MIN_CALL = 64  # fewest completion tokens worth a call
_MIN_ANSWER = 32  # fewest completion tokens worth a last answer
_ENOUGH = 256  # completion tokens worth a pause, or waiting until other calls return some
_LOW = 0.2  # share of a budget: with less left, the model is told to finish
_NOTE = "budget_note"  # of a reply: what its prompt said about the remaining budget
_MAX_PREPARED = 100

Once = Callable[[str, Callable[[], Awaitable[AIMessage]]], Awaitable[AIMessage]]
"""Takes the digest of a request, and makes its call unless the reply was paid for before."""


class BudgetUsedUpError(errors.BudgetUsedUpError, ModelError):
    """An agent's call was not made; for LangChain, it is not worth a retry."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limit what the calls for one request may spend.

    Attributes:
        accounts: Accounts that each call reserves in, one of each tree.
        keep: Amount that the first account keeps for one more call, in its unit.
        per_call: Completion tokens of a single call; `None` for no limit of its own.
        at_least: Fewest completion tokens that are worth a call.
        is_owner: Whether the calls may spend what was kept in the first account.
        is_last: Whether this is the last answer: without thinking and notes, and with a prompt
            that is shortened until it fits.
        tell_every: Rounds of tool calls between two notes about the remaining budget. 0: only when
            little is left. `None`: no note.
        once: Returns the replies that were paid for before the node started over.
    """

    accounts: tuple[Budget, ...]
    keep: float = 0
    per_call: int | None = None
    at_least: int = 1
    is_owner: bool = False
    is_last: bool = False
    tell_every: int | None = None
    once: Once | None = None

    def within(self, other: CallLimits) -> CallLimits:
        """Return these limits with the accounts of other trees and the cap of further limits."""
        roots = {account.line[-1] for account in self.accounts}
        more = [account for account in other.accounts if account.line[-1] not in roots]
        cap = min((limit for limit in (self.per_call, other.per_call) if limit), default=None)
        return replace(self, accounts=(*self.accounts, *more), per_call=cap)


def charged(model: Any, limits: CallLimits) -> BaseChatModel:
    """Return a copy of a model, of the same class, whose calls are charged to accounts.

    Args:
        model: The chat model. A `BudgetedChatModel`, and a model that is charged already, add their
            own accounts and cap.
        limits: What its calls may spend.

    Raises:
        InputError: If the model is no chat model, such as a configurable one.
    """
    if not isinstance(model, BaseChatModel):
        msg = f"{type(model).__name__} is not a chat model. Give the agent a name or a plain model."
        raise errors.InputError(msg)
    if own := getattr(model, "own_limits", None):  # of a BudgetedChatModel
        return charged(model.plain, limits.within(own))  # type: ignore[attr-defined]
    plain = model.model_copy()
    if own := vars(plain).pop("_limits", None):
        limits = limits.within(own)
        vars(plain).update(vars(plain).pop("_own"))
        del vars(plain)["_generate"], vars(plain)["_agenerate"]

    async def acall(
        messages: Any, stop: Any = None, run_manager: Any = None, *, io: IO = ASYNC, **settings: Any
    ) -> ChatResult:
        message = await Call(limits, plain, messages, stop, run_manager, settings, io).reply()
        return ChatResult(generations=[ChatGeneration(message=message)])

    def call(
        messages: Any, stop: Any = None, run_manager: Any = None, **settings: Any
    ) -> ChatResult:
        return run_sync(acall(messages, stop, run_manager, io=BLOCKING, **settings))

    # The plain model streams, and reads and fills its cache; the copy around it must not.
    changed: dict[str, Any] = {"cache": False, "disable_streaming": True, "rate_limiter": None}
    made = plain.model_copy(update=changed)
    own_fields = {name: getattr(plain, name) for name in changed}
    vars(made).update(_generate=call, _agenerate=acall, _limits=limits, _own=own_fields)
    return made


@dataclass
class Call:
    """One call of a chat model, whose prompt gets notes, or is shortened until it fits.

    The model has no budget; what follows it are the arguments of LangChain's ``_generate``.
    """

    limits: CallLimits
    model: BaseChatModel
    messages: Sequence[BaseMessage]
    stop: list[str] | None
    run_manager: Any
    settings: dict[str, Any]
    io: IO

    async def reply(self) -> AIMessage:
        """Reserve, cap, send and settle the call; or return the reply that was paid before a kill.

        Raises:
            BudgetUsedUpError: If an account has too little left.
            InputError: If the call asks for several answers.
        """
        self._made, self._prompt = _prepared(self.model), [*self.messages]
        # A note is sent again where it stood: a provider's prompt cache knows a prompt by its
        # beginning, and a note that later calls leave out would void the cache from there on.
        for place, answer in enumerate(self.messages[1:]):
            if note := answer.response_metadata.get(_NOTE):
                self._prompt[place] = notes.appended(self._prompt[place], note)
        if self.limits.once is None:
            return await self._message()
        return await self.limits.once(digests_of(self.messages, self._made.key)[-1], self._message)

    async def _message(self) -> AIMessage:
        """Make the call within its accounts, and learn the size of its prompt."""
        limits, made, io = self.limits, self._made, self.io
        accounts, cap = limits.accounts, self._cap()
        needs_input = any(account.needs_input for account in accounts)
        parts: dict[str, Any] = {"wait_for": _ENOUGH, "from_kept": limits.is_owner}
        tries = [(limits.keep, limits.at_least)]
        if limits.is_last:  # where enough is left, a lost connection leaves room for another answer
            tries.append((accounts[0].amount(Bill(made.key, output=_MIN_ANSWER)), _ENOUGH))
        done: Attempt | None = None
        while done is None:
            call = await io.load(self._bound) if needs_input else Bill(made.key)
            parts["keep"], least = tries[-1]
            parts["at_least"] = min(max(least, made.least_cap), cap or MAX_TOKENS)
            try:
                done = await attempt(self._send, accounts, cap, call, self.messages, io, **parts)
            except errors.BudgetUsedUpError as error:
                if len(tries) > 1:
                    tries.pop()
                elif limits.is_last and needs_input and (shorter := notes.shortened(self._prompt)):
                    self._prompt = shorter
                else:
                    error.__class__ = BudgetUsedUpError
                    raise
        if done.message is not None:
            if needs_input and done.tokens:
                learn_input(made.model, self._prompt, self.settings, done.tokens)
            return done.message
        failure: Any = done.error
        if type(failure).__name__ != "LengthFinishReasonError":  # OpenAI's client cannot parse it
            explain(failure, self.model)
            raise failure
        usage = done.tokens.usage() if done.tokens and done.tokens.is_measured else None
        return AIMessage("", usage_metadata=usage, response_metadata={"finish_reason": "length"})

    def _cap(self) -> int | None:
        """Return the smallest limit of the completion tokens; refuse several answers at once."""
        given = vars(self.model) | self.settings
        if (several := answers_in(given)) > 1:
            msg = f"A call for {several} answers may cost {several} caps. Make {several} calls "
            raise errors.InputError(msg + "instead.")
        profile: Any = self.model.profile or {}
        caps = [*caps_in(given), self.limits.per_call, profile.get("max_output_tokens")]
        return min([limit for limit in caps if limit], default=None)

    def _bound(self) -> Bill:
        """Return the bound of the call's input, with the longest note that may be added."""
        limits, prompt = self.limits, self._prompt
        if limits.tell_every is not None and isinstance(prompt[-1], HumanMessage | ToolMessage):
            total = limits.accounts[0].rate.text(limits.accounts[0].total)
            note = f"Remaining budget: {total} of {total}. {total}"
            prompt = [*prompt[:-1], notes.appended(prompt[-1], note)]
        is_learned = all(account.is_learned for account in limits.accounts)
        return bound_input(self._made.model, prompt, self.settings, is_learned=is_learned)

    async def _send(self, reserved: Reservation, watch: BaseCallbackHandler) -> AIMessage:
        limits, made, prompt, cap = self.limits, self._made, self._prompt, reserved.tokens
        if note := self._note(reserved):
            prompt = self._prompt = [*prompt[:-1], notes.appended(prompt[-1], note)]
        manager = copy(self.run_manager)
        manager.handlers = [*manager.handlers, watch]
        given: Any = prompt, self.stop, manager
        while True:
            arguments = made.arguments(self.settings, cap, is_last=limits.is_last)
            try:
                result = await self.io.call(*calls_of(made.model), *given, **arguments)
                break
            except Exception as error:
                if not (other := adapted(made.model, made.policy, cap, error)):
                    raise
            made.model, made.policy, cap = other
        message: AIMessage = result.generations[0].message
        told = {**message.response_metadata, _NOTE: note}
        return message.model_copy(update={"response_metadata": told}) if note else message

    def _note(self, reserved: Reservation) -> str | None:
        """Return a line about the remaining budget, if one is due."""
        limits, first = self.limits, self.limits.accounts[0]
        last = self._prompt[-1] if self._prompt else None
        if limits.tell_every is None or not isinstance(last, HumanMessage | ToolMessage):
            return None
        # Read now: other calls may have returned tokens while this call waited.
        others = [account.left for account in limits.accounts[1:] if account.unit == first.unit]
        left = min([first.left_with_kept if limits.is_owner else first.left, *others])
        left += first.amount(reserved.most)
        if left <= _LOW * first.total:
            return f"Remaining budget: {first.rate.text(left)}. Finish this task now."
        rounds = sum(isinstance(m, AIMessage) and bool(m.tool_calls) for m in self._prompt)
        is_due = isinstance(last, ToolMessage) and limits.tell_every
        if not is_due or rounds % limits.tell_every:
            return None
        return f"Remaining budget: {first.rate.text(left)} of {first.rate.text(first.total)}."


class _Prepared:
    """A chat model whose caps are those of its calls, and which never repeats a request itself."""

    def __init__(self, source: BaseChatModel) -> None:
        self._source = source  # keeps the values alive, whose ids are its key in `_PREPARED`
        self.key, self.least_cap = key_of(source), least_cap(source)
        self.model, self.policy = copy_for_calls(source), policy_for(source)

    def arguments(self, given: dict[str, Any], cap: int, *, is_last: bool) -> dict[str, Any]:
        """Return the arguments of a call with its cap, as the model's provider expects it."""
        settings = without_caps(given)
        # Settings of this call, such as an effort, count as settings of the model.
        known = settings.keys() & type(self.model).model_fields.keys()
        model = self.model.model_copy(update={name: settings[name] for name in known})
        options = CallOptions(cap, timeout=math.inf, thinking="off" if is_last else "bounded")
        arguments = self.policy(model, options)
        arguments.pop("timeout", None)  # the host sets it
        return {**settings, **arguments}


_PREPARED: dict[tuple[Any, ...], _Prepared] = {}


def _prepared(model: BaseChatModel) -> _Prepared:
    """Return a model as it is called; a model with the same fields is prepared once."""
    identity = type(model), *(id(vars(model).get(name)) for name in type(model).model_fields)
    if (made := _PREPARED.get(identity)) is None:
        made = _PREPARED[identity] = _Prepared(model)
        if len(_PREPARED) > _MAX_PREPARED:
            _PREPARED.pop(next(iter(_PREPARED)), None)
    return made


@dataclass
class Answer:
    """One answer to a request: a call, and a finishing call if its cap cut the answer off.

    Attributes:
        request: The request, as LangChain's agents make it.
        limits: What each call may spend.
        ask: Makes one call within limits.
        reserve: Share of the first account that is kept for the finishing call; 0 for none.
        by_tool: Whether the final answer is a tool call; the finishing call then keeps its tools.
        on_used_up: Decides what follows when only the reserve is left. `None` for a last answer.
        decision: The decision of a run that has paused here before.
    """

    request: ModelRequest[Any]
    limits: CallLimits
    ask: Callable[[ModelRequest[Any], CallLimits], Awaitable[ModelResponse[Any]]]
    reserve: float
    by_tool: bool = False
    on_used_up: Callable[[errors.BudgetUsedUpError], Awaitable[Decision]] | None = None
    decision: Decision | None = None

    async def respond(self) -> ModelResponse[Any]:
        """Return the model's answer or tool calls.

        Tool calls that were cut off are dropped. An answer that stays unfinished says so in its
        metadata. If the budget is used up, the response is a message that says so.

        Raises:
            BudgetUsedUpError: If the budget is used up and the model's own arguments ask for
                structured output, which a plain message is not.
        """
        account = self.limits.accounts[0]
        least = self._least(_ENOUGH, 0.1) if self.on_used_up else self._least(_MIN_CALL, 0.3)
        limits = replace(self.limits, keep=reserve_of(account, self.reserve), at_least=least)
        response: ModelResponse[Any] | None = None
        decision = self.decision
        while decision in (None, "raise"):
            try:
                response = await self._ask(self.request, limits)
                break
            except errors.BudgetUsedUpError as error:
                asks = self.on_used_up if decision is None else None  # a pause is asked for once
                decision = await asks(error) if asks else "finish"
        if decision == "stop":
            return ModelResponse([AIMessage(_STOPPED, response_metadata=notes.USED_UP)])
        if response is None or finish_of(_message_of(response)) == "length":
            response = await self._finish(_message_of(response) if response else None)
        if self.reserve and (usage := _message_of(response).usage_metadata):
            account.keep(reserve_of(account, self.reserve, key_of(self.request.model), usage))
        return response

    async def _finish(self, first: AIMessage | None) -> ModelResponse[Any]:
        """Return the final answer, out of the reserve, after what was written so far."""
        least = self._least(_MIN_ANSWER // 2 if first else _MIN_ANSWER, 0.1)
        limits = replace(self.limits, at_least=least, is_last=True, tell_every=None)
        is_parsed = self.by_tool or "response_format" in self.request.model_settings
        try:
            final = await self._ask(self._ending(first), limits)
        except errors.BudgetUsedUpError as error:
            if is_parsed:
                raise
            return ModelResponse([notes.unfinished(first, error.note)])
        except Exception:
            if first is None or self._is_typed or not first.text:
                raise
            return ModelResponse([notes.unfinished(first)])  # its tokens are paid for
        said = last = _message_of(final)
        is_empty = not (last.text or last.tool_calls)
        is_open = finish_of(last) == "length" or (is_empty and finish_of(last) == "stop")
        if not self._is_typed and last.tool_calls:  # it was given no tools
            last, is_open = notes.without_tool_calls(last), True
        if first:  # the usage of both calls; a structured answer is whole in the second
            content: Any = last.content
            if first.text and not self._is_typed:
                content = notes.joined(first.content, content) if content else first.content
            usage = [answer.usage_metadata for answer in (first, last)]
            both = add_usage(*usage) if any(usage) else None
            last = last.model_copy(update={"content": content, "usage_metadata": both})
        if is_open and final.structured_response is None and not is_parsed:
            last = notes.unfinished(last)
        return replace(final, result=[last if m is said else m for m in final.result])

    async def _ask(self, request: ModelRequest[Any], limits: CallLimits) -> ModelResponse[Any]:
        """Make one call. Of a reply that was cut off, the text is returned."""
        try:
            response = await self.ask(request, limits)
            message: Any = _message_of(response)
        except Exception as error:
            message = getattr(error, "ai_message", None)  # LangChain cannot parse the output
            if message is None or finish_of(message) != "length":
                raise
        is_cut = finish_of(message) == "length"
        return ModelResponse([notes.without_tool_calls(message)]) if is_cut else response

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

    def _ending(self, first: AIMessage | None) -> ModelRequest[Any]:
        """Return the request for a final answer, without tools and after the text so far.

        Tool calls and results stand in it as text, because servers refuse them without tools.
        """
        settings, messages = self.request.model_settings, self.request.messages
        dropped = frozenset[str]()
        if not self.by_tool:
            dropped, messages = _TOOL_SETTINGS, without_tools(messages, shortened=False)
        if first and first.text and not self._is_typed:
            messages = [*messages, AIMessage(str(first.text)), HumanMessage(f"{FINISH} {_GO_ON}")]
        elif messages and isinstance(messages[-1], HumanMessage):
            messages = [*messages[:-1], notes.appended(messages[-1], FINISH)]
        else:
            messages = [*messages, HumanMessage(FINISH)]
        return self.request.override(
            messages=messages,
            tools=[],
            tool_choice=None,
            model_settings={name: settings[name] for name in settings.keys() - dropped},
        )


def reserve_of(account: Budget, fraction: float, model: str = "", usage: Any = None) -> float:
    """Return the amount to keep for a last answer: dollars, or whole tokens, rounded up.

    It is a share of the total. Where the input counts, it is at least the cost of the prompt so
    far and of what may be added to it: all that helpers write with the rest of the budget, if they
    read twice as many tokens as they write.

    Args:
        account: The account.
        fraction: The least share of its total, from 0 to 1.
        model: Key of the model.
        usage: Usage of its last call.
    """
    share = account.total * fraction
    if usage and account.rate.needs_input:
        prompt = usage["input_tokens"] + usage["output_tokens"]
        last = account.amount(Bill(model, input=prompt, output=_MIN_CALL))
        read, written = account.amount(Bill(model, input=1)), account.amount(Bill(model, output=1))
        rest = max(0, account.left_with_kept - last)
        # A helper's token costs itself, the two that were read for it, and one in the last prompt.
        share = max(share, last + rest * read / (written + 3 * read))
    return share if account.unit == "dollars" else math.ceil(share)


def _message_of(response: ModelResponse[Any]) -> AIMessage:
    """Return the message of the model in a response."""
    return next(message for message in response.result if isinstance(message, AIMessage))
