"""Make one call of a chat model within accounts. All tokens of agents are spent here.

`charged` returns a model whose every call is reserved, capped, sent and settled.
"""
# ruff: noqa: ANN401 -- LangChain's run managers, contents and arguments

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any
from uuid import uuid4

from langchain_core.exceptions import ModelError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.runtime import get_runtime
from pydantic import PrivateAttr

from pb_graph import errors
from pb_graph.agents.notes import NOTES, appended, recall_notes, remember_note, shortened
from pb_graph.budget.account import Budget
from pb_graph.budget.bill import Bill, Reservation, add_spending, subtract_spending
from pb_graph.budget.rates import MAX_TOKENS
from pb_graph.errors import InputError
from pb_graph.models.caps import policy_for
from pb_graph.models.input_bound import bound_input, digests_of, learn_input
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
from pb_graph.models.reply import ASYNC, BLOCKING, IO, Attempt, attempt, run_sync
from pb_graph.run.journal import Journal
from pb_graph.run.pause import BudgetPause
from pb_graph.types import Spending

MIN_ANSWER = 32  # fewest completion tokens worth a last answer
ENOUGH = 256  # completion tokens worth a pause, or waiting until other calls return some
_LOW = 0.2  # share of a budget: with less left, the model is told to finish
_MAX_PREPARED = 100


_LOADED = uuid4().hex


class BudgetUsedUpError(errors.BudgetUsedUpError, ModelError):
    """An agent's call was not made; for LangChain, it is not worth a retry."""


class Log:
    """The log of a node that calls models, or of a tool call. It outlives a kill.

    Without a checkpointer nothing is stored. An agent that ended before the tool that it runs in
    was killed is not asked again, so its calls stand in the log of the tool call, too.

    Args:
        io: How to wait, `BLOCKING` or `ASYNC`.
        run: Identity of the agent's run.
        tool_call: Identity of the tool call; None for the log of a node that calls models.

    Attributes:
        journal: Stores the entries; None without a checkpointer.
        entries: What was written before the node started over, and since.
    """

    def __init__(self, io: IO, run: str = "", tool_call: str | None = None) -> None:
        self._run, self._key = run, ""
        self._name = ["TokenBudgetMiddleware", tool_call]
        self.journal = _journal(io)
        self.entries: list[dict[str, Any]] = []

    async def read(self) -> Log:
        """Read what was written before the node started over."""
        if self.journal:
            self._key, entry = await self.journal.find(self._name)
            while entry:
                self.entries.append(entry)
                self._key, entry = await self.journal.find(self._name)
        return self

    async def add(self, account: Budget, cost: Spending, **entry: Any) -> None:
        """Write an entry with the account's spending, and its cost to the logs of enclosing tools.

        Args:
            account: The account of the run.
            cost: What a call has cost, by model.
            **entry: The digest of a `request` and its `reply`, or a `pause`.
        """
        known = {"tokens": account.spending, "total": account.total, "process": _process()}
        await self._write(known | entry)
        for tool in TOOL_LOGS.get() if cost else ():
            await tool._write({"run": self._run, "tokens": cost})  # noqa: SLF001 -- of a Log

    def take(self, request: str) -> Any:
        """Return the reply to a call that another process has paid, once.

        A call that this process repeats, as after an error in another middleware, is made again.
        """
        for entry in self.entries:
            is_elsewhere = entry.get("process") != _process()
            if is_elsewhere and entry.get("reply") and entry["request"] == request:
                entry["request"] = None
                return messages_from_dict([entry["reply"]])[0]
        return None

    @property
    def pause(self) -> BudgetPause | None:
        """The pause that the node came to before it started over."""
        return next((entry["pause"] for entry in self.entries if "pause" in entry), None)

    @property
    def runs(self) -> dict[str, Spending]:
        """The spending of each agent run within a tool call, without that of runs below it."""
        runs: dict[str, Spending] = {}
        for entry in (entry for entry in self.entries if "run" in entry):
            runs[entry["run"]] = add_spending(runs.get(entry["run"]), entry["tokens"])
        return runs

    async def _write(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)
        if self.journal:
            key = self._key
            self._key, _ = await self.journal.find(self._name)
            await self.journal.write(key, entry)


TOOL_LOGS: ContextVar[tuple[Log, ...]] = ContextVar("pb_graph_tool_logs", default=())
"""The logs of the tool calls around a caller."""


def _process() -> str:
    return f"{_LOADED} {os.getpid()}"  # a fork has the same memory, a new container the same number


def _journal(io: IO) -> Journal | None:
    """Return the journal of the running node; None without a checkpointer."""
    try:
        saver = get_config()["configurable"].get(CONFIG_KEY_CHECKPOINTER)
        info = get_runtime().execution_info
    except (RuntimeError, KeyError):  # outside a graph
        return None
    return Journal(saver, info, io) if saver and info and info.checkpoint_id else None


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limit what the calls for one request may spend.

    Attributes:
        accounts: Accounts that each call reserves in, one of each tree.
        keep: Amount that the first account keeps for one more call, in its unit.
        per_call: Completion tokens of a single call; `None` for no limit of its own.
        at_least: Fewest completion tokens that are worth a call.
        wait_for: Completion tokens worth waiting for while other calls may return some.
        is_owner: Whether the calls may spend what was kept in the first account.
        is_last: Whether this is the last answer: without thinking and notes, and with a prompt
            that is shortened until it fits.
        tell_every: Rounds of tool calls between two notes about the remaining budget. 0: only when
            little is left. `None`: no note.
        log: The log of the node, which knows the replies that were paid before it started over.
    """

    accounts: tuple[Budget, ...]
    keep: float = 0
    per_call: int | None = None
    at_least: int = 1
    wait_for: int = 1
    is_owner: bool = False
    is_last: bool = False
    tell_every: int | None = None
    log: Log | None = None

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
    if plain := getattr(model, "plain", None):  # of a BudgetedChatModel
        own: Any = model
        return charged(plain, limits.within((own.account,) if own.account else (), own.per_call))
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


async def call_within(  # noqa: PLR0913, PLR0917 -- those of LangChain's models, and the limits
    limits: CallLimits,
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    stop: list[str] | None,
    run_manager: Any,
    settings: dict[str, Any],
    io: IO,
) -> AIMessage:
    """Reserve, cap, send and settle one call; or return the reply that was paid before a kill.

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
    made, log, done = _prepared(model), limits.log, None
    request = digests_of(messages, made.key)[-1] if log else ""
    if log and (reply := log.take(request)):
        known: AIMessage = reply
        return known
    cap = _cap(model, vars(model) | settings, limits.per_call)
    call, account = _Call(limits, made, messages, settings, io), limits.accounts[0]
    before = account.spending if log else {}
    try:
        done = await call.attempt(cap, stop, run_manager)
    finally:  # a call that was cancelled counts with its cap
        if log:
            reply = done and done.message and message_to_dict(done.message)
            cost = subtract_spending(account.spending, before)
            await log.add(account, cost, request=request, reply=reply)
    if done.message is not None:
        return done.message
    if type(done.error).__name__ == "LengthFinishReasonError":  # OpenAI's client cannot parse it
        usage = done.tokens.usage() if done.tokens and done.tokens.is_measured else None
        return AIMessage("", usage_metadata=usage, response_metadata={"finish_reason": "length"})
    explain(done.error, model)  # type: ignore[arg-type]
    raise done.error  # type: ignore[misc]


@dataclass
class _Call:
    """One call of a prepared model, whose prompt gets notes, or is shortened until it fits."""

    limits: CallLimits
    made: _Prepared
    messages: Sequence[BaseMessage]
    settings: dict[str, Any]
    io: IO
    prompt: list[BaseMessage] = field(init=False)

    def __post_init__(self) -> None:
        account = self.limits.accounts[0]
        has_notes, messages = account in NOTES, self.messages
        self.prompt = recall_notes(account, messages) if has_notes else [*messages]

    async def attempt(self, cap: int | None, stop: list[str] | None, run_manager: Any) -> Attempt:
        """Make the call within its accounts, and learn the size of its prompt.

        Args:
            cap: Completion tokens that the call may cost; None for all that is left.
            stop: Texts at which the model stops.
            run_manager: The run of the call.
        """
        limits, made, io = self.limits, self.made, self.io
        accounts, watch = limits.accounts, StreamWatch(made.provider)
        needs_input = any(account.needs_input for account in accounts)
        send = partial(self._send, stop, run_manager, watch)
        wishes: dict[str, Any] = {"wait_for": limits.wait_for, "from_kept": limits.is_owner}
        tries = [(limits.keep, limits.at_least)]
        if limits.is_last:  # where enough is left, a lost connection leaves room for another answer
            tries.append((accounts[0].amount(Bill(made.key, output=MIN_ANSWER)), ENOUGH))
        while True:
            call = Bill(made.key)
            if needs_input:
                call = await io.load(_bound, made.model, self.prompt, self.settings, limits)
            wishes["keep"], least = tries[-1]
            wishes["at_least"] = min(max(least, made.least_cap), cap or MAX_TOKENS)
            try:
                sent = (send, accounts, cap, call, self.messages, watch, io)
                done = await attempt(*sent, **wishes)
            except errors.BudgetUsedUpError as error:
                if len(tries) > 1:
                    tries.pop()
                elif limits.is_last and needs_input and (shorter := shortened(self.prompt)):
                    self.prompt = shorter
                else:
                    error.__class__ = BudgetUsedUpError
                    raise
            else:
                if needs_input and done.message and done.tokens:
                    prompt = self.prompt
                    learn_input(made.model, prompt, self.settings, done.message, done.tokens)
                return done

    async def _send(
        self, stop: list[str] | None, run_manager: Any, watch: StreamWatch, reserved: Reservation
    ) -> AIMessage:
        limits, made, prompt = self.limits, self.made, self.prompt
        if note := _note(prompt, limits, reserved):
            remember_note(limits.accounts[0], self.messages, note)
            prompt = self.prompt = [*prompt[:-1], appended(prompt[-1], note)]
        arguments = made.arguments(self.settings, reserved.tokens, is_last=limits.is_last)
        manager = copy(run_manager)
        manager.handlers = [*run_manager.handlers, watch]
        call = self.io.call
        try:
            result = await call(*calls_of(made.model), prompt, stop, manager, **arguments)
        except Exception as error:
            if not refuses_stream_options(made.model, error):
                raise
            made.model = made.model.model_copy(update={"stream_usage": False})
            result = await call(*calls_of(made.model), prompt, stop, manager, **arguments)
        watch.on_llm_end(LLMResult(generations=[result.generations]), run_id=run_manager.run_id)
        message: AIMessage = result.generations[0].message
        return message


class _Prepared:
    """A chat model whose caps are those of its calls, and which never repeats a request itself."""

    def __init__(self, model: BaseChatModel) -> None:
        self._source = model  # keeps the values alive, whose ids are its key
        self.key, self.least_cap, self.policy = key_of(model), least_cap(model), policy_for(model)
        self.provider = ls_params_of(model)().get("ls_provider") or ""
        self.model = copy_for_calls(model)

    def arguments(self, given: dict[str, Any], cap: int, *, is_last: bool) -> dict[str, Any]:
        """Return the arguments of a call with its cap, as the model's provider expects it."""
        settings = without_caps(given)
        # Settings of this call, such as an effort, count as settings of the model.
        known = settings.keys() & type(self.model).model_fields.keys()
        model = self.model.model_copy(update={name: settings[name] for name in known})
        thinking: Thinking = "off" if is_last else "bounded"
        arguments = self.policy(model, CallOptions(cap, timeout=math.inf, thinking=thinking))
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
    others = [account.left for account in limits.accounts[1:] if account.unit == first.unit]
    left = min([first.left_with_kept if limits.is_owner else first.left, *others])
    left += first.amount(reservation.most)
    if left <= _LOW * first.total:
        return f"Remaining budget: {first.rate.text(left)}. Finish this task now."
    rounds = sum(isinstance(m, AIMessage) and bool(m.tool_calls) for m in messages)
    is_due = isinstance(last, ToolMessage) and limits.tell_every
    if not is_due or rounds % limits.tell_every:
        return None
    return f"Remaining budget: {first.rate.text(left)} of {first.rate.text(first.total)}."
