"""Get one answer of a chat model within accounts. All tokens of agents are spent here."""
# ruff: noqa: ANN401 -- LangChain's run managers, contents and arguments

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import ModelError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import add_usage
from langchain_core.outputs import ChatGeneration, ChatResult

from pb_graph import errors
from pb_graph.budget.account import Budget
from pb_graph.budget.bill import MAX_TOKENS, Bill, Reservation
from pb_graph.models import options
from pb_graph.models.caps import adapted, policy_for
from pb_graph.models.input_bound import bound_input, digests_of, learn_input
from pb_graph.models.provider_errors import explain
from pb_graph.models.reply import ASYNC, BLOCKING, IO, attempt, finish_of, run_sync
from pb_graph.run.parts import remember
from pb_graph.run.resume import Decision
from pb_graph.run.tools import without_tools
from pb_graph.tasks import ends_of

FINISH = "The token budget is nearly used up. Give your best final answer now, in brief."
_STOPPED = "The token budget is used up, and the run was stopped."
_NOT_FINISHED = "The task is not finished: too few tokens were left for its answer."
_GO_ON = "What you wrote stays above it: go on there, and repeat nothing."
_USED_UP = {"finish_reason": "length", "budget_used_up": True}
_TOOL_SETTINGS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
_MIN_CALL = 64  # fewest completion tokens worth a call
_MIN_ANSWER = 32  # fewest completion tokens worth a last answer
_MIN_SHORTENED = 300  # characters of the longest text of a prompt that may be shortened
_ENOUGH = 256  # completion tokens worth a pause, or waiting until other calls return some
_LOW = 0.2  # share of a budget: with less left, the model is told to finish
_NOTE = "budget_note"  # of a reply: what its prompt said about the remaining budget

Request = ModelRequest[Any]
Response = ModelResponse[Any]
Maker = Callable[[], Awaitable[AIMessage]]


class BudgetUsedUpError(errors.BudgetUsedUpError, ModelError):
    """An agent's call was not made; for LangChain, it is not worth a retry."""


class CallLimits(NamedTuple):
    """Limit what the calls for one request may spend."""

    accounts: tuple[Budget, ...]  # that each call reserves in, one of each tree
    keep: float = 0  # amount that a call leaves in the first account for one more call
    per_call: int | None = None  # completion tokens of a single call; None for no limit of its own
    at_least: int = 1  # fewest completion tokens that are worth a call
    reserve: float = 0  # share of the first account that its calls keep for the last answer
    is_last: bool = False  # the last answer: no thinking, no notes, and a prompt that is shortened
    tell_every: int = 1  # rounds of tool calls between notes about the budget; 0: only if it is low
    # Takes a request's digest, and makes its call unless the reply was paid for before a kill.
    once: Callable[[str, Maker], Awaitable[AIMessage]] | None = None

    def within(self, other: CallLimits) -> CallLimits:
        """Return these limits with the accounts of other trees and the cap of further limits."""
        roots = {account.line[-1] for account in self.accounts}
        more = [account for account in other.accounts if account.line[-1] not in roots]
        cap = min(filter(None, (self.per_call, other.per_call)), default=None)
        return self._replace(accounts=(*self.accounts, *more), per_call=cap)


def charged(model: Any, limits: CallLimits) -> BaseChatModel:
    """Return a copy of a model, of the same class, whose calls are charged to accounts.

    Args:
        model: The chat model; accounts and a cap of its own, as of a `BudgetedChatModel`, hold too.
        limits: What its calls may spend.

    Raises:
        InputError: If the model is no chat model, such as a configurable one.
    """
    if not isinstance(model, BaseChatModel):
        msg = f"{type(model).__name__} is not a chat model. Give the agent a name or a plain model."
        raise errors.InputError(msg)
    if parts := getattr(model, "budgeted", None):  # of a BudgetedChatModel
        return charged(parts[0], limits.within(parts[1]))
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

    def call(messages: Any, stop: Any = None, run_manager: Any = None, **given: Any) -> ChatResult:
        return run_sync(acall(messages, stop, run_manager, io=BLOCKING, **given))

    # The plain model streams, and reads and fills its cache; the copy around it must not.
    changed: dict[str, Any] = {"cache": False, "disable_streaming": True, "rate_limiter": None}
    made = plain.model_copy(update=changed)
    own_fields = {name: getattr(plain, name) for name in changed}
    vars(made).update(_generate=call, _agenerate=acall, _limits=limits, _own=own_fields)
    return made


@dataclass
class Call:
    """One call of a model without a budget, and the arguments of LangChain's ``_generate``."""

    limits: CallLimits
    model: BaseChatModel
    messages: Sequence[BaseMessage]
    stop: list[str] | None
    run_manager: Any
    settings: dict[str, Any]
    io: IO

    async def reply(self) -> AIMessage:
        """Reserve, cap, send and settle the call; or return the reply that was paid for before."""
        given, profile = vars(self.model) | self.settings, self.model.profile or {}
        if (n := options.answers_in(given)) > 1:
            msg = f"A call for {n} answers may cost {n} caps. Make {n} calls instead."
            raise errors.InputError(msg)
        caps = *options.caps_in(given), self.limits.per_call, profile.get("max_output_tokens")
        self._cap: int | None = min(filter(None, caps), default=None)
        self._made, self._prompt = _prepared(self.model), [*self.messages]
        last = self._prompt[-1] if self._prompt and not self.limits.is_last else None
        self._is_told = isinstance(last, HumanMessage | ToolMessage)
        # A note is sent again where it stood, so that a provider's prompt cache stays valid.
        for place, answer in enumerate(self.messages[1:]):
            if note := answer.response_metadata.get(_NOTE):
                self._prompt[place] = _appended(self._prompt[place], note)
        if self.limits.once is None:
            return await self._message()
        return await self.limits.once(digests_of(self.messages, self._made.key)[-1], self._message)

    async def _message(self) -> AIMessage:
        limits, made, cap, io = self.limits, self._made, self._cap, self.io
        accounts = limits.accounts
        needs_input = any(account.needs_input for account in accounts)
        parts: dict[str, Any] = {"wait_for": _ENOUGH, "from_kept": limits.reserve > 0}
        tries = [(limits.keep, limits.at_least)]
        if limits.is_last:  # where enough is left, a lost connection leaves room for another answer
            tries.append((accounts[0].amount(Bill(made.key, output=_MIN_ANSWER)), _ENOUGH))
        while True:
            call = await io.load(self._bound) if needs_input else Bill(made.key)
            parts["keep"], least = tries[-1]
            parts["at_least"] = min(max(least, made.least_cap), cap or MAX_TOKENS)
            try:
                done = await attempt(self._send, accounts, cap, call, self.messages, io, **parts)
                break
            except errors.BudgetUsedUpError as error:
                if len(tries) > 1:
                    tries.pop()
                elif limits.is_last and needs_input and (shorter := _shortened(self._prompt)):
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

    def _bound(self) -> Bill:
        """Return the bound of the call's input, with the longest note that may be added."""
        prompt, accounts = self._prompt, self.limits.accounts
        if self._is_told:
            total = accounts[0].rate.text(accounts[0].total)
            note = f"Remaining budget: {total} of {total}. {total}"
            prompt = [*prompt[:-1], _appended(prompt[-1], note)]
        is_learned = all(account.is_learned for account in accounts)
        return bound_input(self._made.model, prompt, self.settings, is_learned=is_learned)

    async def _send(self, reserved: Reservation, watch: BaseCallbackHandler) -> AIMessage:
        made, prompt, cap = self._made, self._prompt, reserved.tokens
        settings = options.without_caps(self.settings)
        if note := self._note(reserved):
            prompt = self._prompt = [*prompt[:-1], _appended(prompt[-1], note)]
        manager = copy(self.run_manager)
        manager.handlers = [*manager.handlers, watch]
        given: Any = prompt, self.stop, manager
        thinking: Any = "off" if self.limits.is_last else "bounded"
        while True:
            # Settings of this call, such as an effort, count as settings of the model.
            known = settings.keys() & type(made.model).model_fields.keys()
            model = made.model.model_copy(update={name: settings[name] for name in known})
            call = options.CallOptions(cap, timeout=math.inf, thinking=thinking)
            sent = made.policy(model, call)
            sent.pop("timeout", None)  # the host sets it
            try:
                reply = await self.io.call(*options.calls_of(made.model), *given, **settings | sent)
                break
            except Exception as error:
                if not (other := adapted(made.model, made.policy, cap, error)):
                    raise
            made.model, made.policy, cap = other
        message: AIMessage = reply.generations[0].message
        told = {**message.response_metadata, _NOTE: note}
        return message.model_copy(update={"response_metadata": told}) if note else message

    def _note(self, reserved: Reservation) -> str | None:
        """Return a line about the remaining budget, if one is due."""
        if not self._is_told:
            return None
        limits, first = self.limits, self.limits.accounts[0]
        # Read now: other calls may have returned tokens while this call waited.
        others = [account.left for account in limits.accounts[1:] if account.unit == first.unit]
        left = min([first.left_with_kept if limits.reserve else first.left, *others])
        left += first.amount(reserved.most)
        if left <= _LOW * first.total:
            return f"Remaining budget: {first.rate.text(left)}. Finish this task now."
        rounds = sum(isinstance(m, AIMessage) and bool(m.tool_calls) for m in self._prompt)
        every = limits.tell_every if isinstance(self._prompt[-1], ToolMessage) else 0
        told = f"Remaining budget: {first.rate.text(left)} of {first.rate.text(first.total)}."
        return told if every and not rounds % every else None


class _Prepared:
    """A chat model whose caps are those of its calls, and which never repeats a request itself."""

    def __init__(self, source: BaseChatModel) -> None:
        self._source = source  # keeps the values alive, whose ids are its key in `_PREPARED`
        self.key, self.least_cap = options.key_of(source), options.least_cap(source)
        self.model, self.policy = options.copy_for_calls(source), policy_for(source)


_PREPARED: dict[tuple[Any, ...], _Prepared] = {}


def _prepared(model: BaseChatModel) -> _Prepared:
    """Return a model as it is called; a model with the same fields is prepared once."""
    key = type(model), *(id(vars(model).get(name)) for name in type(model).model_fields)
    return _PREPARED.get(key) or remember(_PREPARED, key, _Prepared(model), most=100)


@dataclass
class Answer:
    """One answer to a request: a call, and a finishing call if its cap cut the answer off."""

    request: Request
    limits: CallLimits  # of each call
    ask: Callable[[Request, CallLimits], Awaitable[Response]]  # makes one call
    # Decides what follows when only the reserve is left; None for a last answer.
    on_used_up: Callable[[errors.BudgetUsedUpError], Awaitable[Decision]] | None = None
    by_tool: bool = False  # whether the answer is a tool call: the finishing call keeps its tools

    async def respond(self, decision: Decision | None = None) -> Response:
        """Return the answer or tool calls, after the decision on an earlier pause; else why not."""
        account = self.limits.accounts[0]
        least = self._least(_ENOUGH, 0.1) if self.on_used_up else self._least(_MIN_CALL, 0.3)
        share, response = self.limits.reserve, None
        limits = self.limits._replace(keep=reserve_of(account, share), at_least=least)
        while decision in (None, "raise"):
            try:
                response = await self._ask(self.request, limits)
                break
            except errors.BudgetUsedUpError as error:
                asks = self.on_used_up if decision is None else None  # a pause is asked for once
                decision = await asks(error) if asks else "finish"
        if decision == "stop":
            return ModelResponse([AIMessage(_STOPPED, response_metadata=_USED_UP)])
        if response is None or finish_of(_message_of(response)) == "length":
            response = await self._finish(_message_of(response) if response else None)
        if share and (usage := _message_of(response).usage_metadata):
            account.keep(reserve_of(account, share, options.key_of(self.request.model), usage))
        return response

    async def _finish(self, first: AIMessage | None) -> Response:
        """Return the final answer, out of the reserve, after what was written so far."""
        least = self._least(_MIN_ANSWER // 2 if first else _MIN_ANSWER, 0.1)
        limits = self.limits._replace(at_least=least, is_last=True)
        is_parsed = self.by_tool or self.request.model_settings.get("response_format") is not None
        is_typed = is_parsed or self.request.response_format is not None  # comes in one piece
        begun = None if is_typed or not (first and first.text) else first
        try:
            final = await self._ask(self._ending(begun), limits)
        except Exception as error:
            note = error.note if isinstance(error, errors.BudgetUsedUpError) else None
            if is_parsed or (note is None and not begun):  # the tokens of what has begun are paid
                raise
            return ModelResponse([_unfinished(first or AIMessage(""), note or "")])
        said = last = _message_of(final)
        finish, is_empty = finish_of(last), not (last.text or last.tool_calls)
        is_open = finish == "length" or (is_empty and finish == "stop")
        if not is_typed and last.tool_calls:  # it was given no tools
            last, is_open = _without_tool_calls(last), True
        if first:  # the usage of both calls; a structured answer is whole in the second
            content: Any = (begun or last).content
            if begun and last.content:
                content = _joined(begun.content, last.content)
            usage = [answer.usage_metadata for answer in (first, last)]
            both = add_usage(*usage) if any(usage) else None
            last = last.model_copy(update={"content": content, "usage_metadata": both})
        if is_open and final.structured_response is None and not is_parsed:
            last = _unfinished(last)
        return replace(final, result=[last if m is said else m for m in final.result])

    async def _ask(self, request: Request, limits: CallLimits) -> Response:
        """Make one call. Of a reply that was cut off, the text is returned."""
        try:
            response = await self.ask(request, limits)
            message: Any = _message_of(response)
        except Exception as error:
            message = getattr(error, "ai_message", None)  # LangChain cannot parse the output
            if message is None or finish_of(message) != "length":
                raise
        is_cut = finish_of(message) == "length"
        return ModelResponse([_without_tool_calls(message)]) if is_cut else response

    def _least(self, tokens: int, share: float) -> int:
        """Return the fewest tokens worth a call; less if the whole budget is small."""
        root = self.limits.accounts[0].line[-1]
        small = int(root.total * share) if root.unit == "completion tokens" else tokens
        return max(1, min(tokens, small))

    def _ending(self, begun: AIMessage | None) -> Request:
        """Return the request for a final answer, with tool calls as text: it has no tools."""
        request, messages = self.request, self.request.messages
        kept = request.model_settings
        if not self.by_tool:
            kept = {name: kept[name] for name in kept.keys() - _TOOL_SETTINGS}
            messages = without_tools(messages, shortened=False)
        if begun:
            messages = [*messages, AIMessage(str(begun.text)), HumanMessage(f"{FINISH} {_GO_ON}")]
        elif messages and isinstance(messages[-1], HumanMessage):
            messages = [*messages[:-1], _appended(messages[-1], FINISH)]
        else:
            messages = [*messages, HumanMessage(FINISH)]
        return request.override(messages=messages, tools=[], tool_choice=None, model_settings=kept)


def reserve_of(account: Budget, fraction: float, model: str = "", usage: Any = None) -> float:
    """Return the amount to keep for a last answer: a share of the total, whole if it is tokens.

    Where the input counts, it is at least the cost of the prompt so far, by the model's last usage,
    and of all that helpers may add to it, if they read twice as many tokens as they write.
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


def _message_of(response: Response) -> AIMessage:
    return next(message for message in response.result if isinstance(message, AIMessage))


def _appended(message: Any, note: str) -> Any:
    return message.model_copy(update={"content": _joined(message.content, note)})


def _joined(first: Any, second: Any) -> Any:
    """Join two contents. Blocks stay unchanged, because a prompt cache may know them."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    parts = [[{"type": "text", "text": p}] if isinstance(p, str) else p for p in (first, second)]
    return [*parts[0], *parts[1]]


def _unfinished(message: AIMessage, reason: str = "") -> AIMessage:
    """Return a message that says that it is not finished: in its text, if it has none."""
    metadata = {**message.response_metadata, **_USED_UP}
    content = message.content if message.text else f"{reason} {_NOT_FINISHED}".strip()
    return message.model_copy(update={"content": content, "response_metadata": metadata})


def _shortened(messages: Sequence[BaseMessage]) -> list[BaseMessage] | None:
    """Return a prompt whose longest text, but no system text, has lost its middle; or None."""
    sizes = [len(m.text) if m.type != "system" else 0 for m in messages]
    if (longest := max(sizes, default=0)) < _MIN_SHORTENED:
        return None
    place, part = sizes.index(longest), longest // 3
    update = {"content": ends_of(messages[place].text, part, part)}
    return [*messages[:place], messages[place].model_copy(update=update), *messages[place + 1 :]]


def _without_tool_calls(message: AIMessage) -> AIMessage:
    """Return a message without its tool calls, the last of which may be incomplete."""
    update = {"content": str(message.text), "tool_calls": [], "invalid_tool_calls": []}
    return message.model_copy(update=update)
