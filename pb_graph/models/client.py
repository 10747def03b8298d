"""One chat model, called within limits: the single door through which tokens are spent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage

from pb_graph.budget.ledger import Charge
from pb_graph.models.aloud import Aloud
from pb_graph.models.caps import CapPolicy, Limits, pliant, policy_for
from pb_graph.models.deadline import within_deadline
from pb_graph.models.faults import (
    explain,
    is_too_long,
    may_be_paid,
    secrets_of,
    shown_safely,
    status_of,
)
from pb_graph.models.retry import Patience, retries_itself, unretried
from pb_graph.models.usage import Tokens, finish_of, reported, tokens_of, visible_text

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig

    from pb_graph.models.aloud import Hears

# LangGraph keeps tokens of calls with this tag out of a host's message stream.
_QUIET: RunnableConfig = {"tags": ["nostream"]}
_UNSUPPORTED = frozenset({400, 422})
# Characters of a reply that are read: no tokenizer has tokens this long, on average.
_LONGEST_TOKEN, _LEAST_READ = 100, 20_000
# Where chat models keep a time limit of their own.
_TIMEOUTS = ("timeout", "request_timeout", "default_request_timeout")


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the visible text, why it ended, and what the call was charged.

    ``lost`` are the charges of attempts that came to nothing before it, where they may be paid for;
    one of unknown cost is there with no tokens, and not ``measured``.
    """

    text: str
    finish: str
    charge: Charge
    lost: tuple[Charge, ...] = ()

    @property
    def tokens(self) -> int:
        """Completion tokens of all attempts."""
        return self.charge["output_tokens"] + sum(lost["output_tokens"] for lost in self.lost)


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a call is made for, as the ledger and the traces show it."""

    node: str
    step: int | None = None


class ChatClient:
    """A chat model with its cap policy, and patience for a server that has a bad moment.

    Every call ends within a time limit: the model's own if it has one, else that of its limits.
    Transient faults are tried again, unless the model's own client does so by itself (a chat model
    object with ``max_retries`` above 0 keeps its retries, and their cost stays unseen). Attempts of
    one call share its cap: what a failed one is known to have cost is off limits to the next.

    Args:
        model: Any LangChain chat model. The caller's object is left as it is; calls go through a
            copy that never streams, because a streamed response often loses its usage. Only a call
            that is to be heard goes through one that streams, and asks for the usage.
        policy: How limits become arguments; chosen from the model when not given.
        patience: How often, and after how long, a call that failed is tried again.
    """

    def __init__(
        self,
        model: BaseChatModel,
        policy: CapPolicy | None = None,
        patience: Patience | None = None,
    ) -> None:
        quiet: dict[str, object] = {"disable_streaming": True} | unretried(model)
        if "streaming" in type(model).model_fields:
            quiet["streaming"] = False  # else the request asks for the stream that nobody reads
        self._policy = policy or policy_for(model)
        self.model = model.model_copy(update=quiet | pliant(model, self._policy))
        aloud = {"stream_usage": True} if "stream_usage" in type(model).model_fields else {}
        self._speaking = model.model_copy(
            update=aloud | unretried(model) | pliant(model, self._policy)
        )
        self._constrains = _constrains(self._policy, self.model)
        self._streams = True
        stays = retries_itself(model)
        self._patience = Patience(retries=0) if stays else (patience or Patience())
        self._secrets = secrets_of(model)
        self._timed = any(getattr(model, name, None) is not None for name in _TIMEOUTS)

    def call(
        self,
        messages: Sequence[BaseMessage],
        limits: Limits,
        purpose: Purpose,
        hears: Hears | None = None,
    ) -> Reply:
        """Make one call, in as many attempts as it takes.

        Args:
            messages: The prompt.
            limits: Cap and time limit, for all attempts together and for each.
            purpose: What it is charged to.
            hears: If given, the reply is streamed and its text so far told. It begins anew when an
                attempt breaks off.

        Raises:
            ModelCallError: The call failed for good; it says what to do.
        """
        attempts = self._attempts(messages, limits, purpose, hears)
        while True:
            outcome = self._tried(messages, attempts.begun(), attempts.hears)
            if isinstance(outcome, AIMessage):
                return self._accepted(attempts, outcome)
            time.sleep(attempts.failed(outcome))

    async def acall(
        self,
        messages: Sequence[BaseMessage],
        limits: Limits,
        purpose: Purpose,
        hears: Hears | None = None,
    ) -> Reply:
        """`call` for an event loop."""
        attempts = self._attempts(messages, limits, purpose, hears)
        while True:
            outcome = await self._atried(messages, attempts.begun(), attempts.hears)
            if isinstance(outcome, AIMessage):
                return self._accepted(attempts, outcome)
            await asyncio.sleep(attempts.failed(outcome))

    def _tried(
        self, messages: Sequence[BaseMessage], limits: Limits, hears: Hears | None
    ) -> AIMessage | Exception:
        """One attempt. Errors are returned: raised from here, they would hang on to each other."""
        try:
            bound = self._policy(self.model, limits)
            invoke = partial(self.model.invoke, list(messages), _QUIET, **bound)
            if hears:
                invoke = partial(self._streamed, messages, limits, bound, hears)
            return within_deadline(invoke, limits.timeout) if self._waits(bound) else invoke()
        except Exception as error:  # noqa: BLE001 -- the attempts decide what it means
            return error

    async def _atried(
        self, messages: Sequence[BaseMessage], limits: Limits, hears: Hears | None
    ) -> AIMessage | Exception:
        try:
            bound = self._policy(self.model, limits)
            call = (
                self._astreamed(messages, limits, bound, hears)
                if hears
                else self.model.ainvoke(list(messages), _QUIET, **bound)
            )
            if not self._waits(bound):
                return await call
            async with asyncio.timeout(limits.timeout):
                return await call
        except Exception as error:  # noqa: BLE001 -- the attempts decide what it means
            return error

    def _streamed(
        self,
        messages: Sequence[BaseMessage],
        limits: Limits,
        bound: Mapping[str, Any],
        hears: Hears,
    ) -> AIMessage:
        aloud = Aloud(self._speaking, hears, limits.timeout)
        for chunk in self._speaking.stream(list(messages), _QUIET, **bound):
            aloud.add(chunk)
        return aloud.whole()

    async def _astreamed(
        self,
        messages: Sequence[BaseMessage],
        limits: Limits,
        bound: Mapping[str, Any],
        hears: Hears,
    ) -> AIMessage:
        aloud = Aloud(self._speaking, hears, limits.timeout)
        async for chunk in self._speaking.astream(list(messages), _QUIET, **bound):
            aloud.add(chunk)
        return aloud.whole()

    def _waits(self, bound: Mapping[str, object]) -> bool:
        """Whether the time limit is ours to keep: neither the model nor the request has one."""
        return not self._timed and "timeout" not in bound

    def _attempts(
        self,
        messages: Sequence[BaseMessage],
        limits: Limits,
        purpose: Purpose,
        hears: Hears | None,
    ) -> _Attempts:
        # Without the schema, once this server has been found not to know what to do with it.
        limits = limits if self._constrains else _without_schema(limits)
        attempts = _Attempts(messages, limits, purpose, self._patience, self._secrets)
        attempts.hears = hears if self._streams else None
        return attempts

    def _accepted(self, attempts: _Attempts, message: AIMessage) -> Reply:
        if attempts.schema_refused:
            self._constrains = False
        if attempts.stream_refused:
            self._streams = False
        return attempts.reply(message)


class _Attempts:
    """The attempts of one call: what is left for the next, and what the last ones came to."""

    def __init__(
        self,
        prompt: Sequence[BaseMessage],
        limits: Limits,
        purpose: Purpose,
        patience: Patience,
        secrets: Sequence[str],
    ) -> None:
        self._prompt, self._limits, self._purpose = prompt, limits, purpose
        self._patience, self._secrets = patience, secrets
        self._lost: list[Charge] = []
        self._failed = 0
        self._started = 0.0
        self.hears: Hears | None = None
        self.schema_refused = self.stream_refused = False

    def begun(self) -> Limits:
        """Begin an attempt, within these limits."""
        self._started = time.perf_counter()
        return self._limits

    def failed(self, error: Exception) -> float:
        """Take note of a failed attempt, and say how many seconds to wait before the next.

        Raises:
            ModelCallError: There is to be none.
        """
        if _schema_refused(error, self._limits):
            self.schema_refused = True
            self._limits = _without_schema(self._limits)
            return 0.0
        if self.hears and _unsupported(error):
            self.hears, self.stream_refused = None, True
            return 0.0
        self._failed += 1
        self._note(error)
        wait = self._patience.wait(error, self._failed, self._limits.timeout)
        if wait is None or self._limits.cap < 1:
            cause = shown_safely(error, self._secrets)
            lost = tuple(self._lost)
            raise explain(error, secrets=self._secrets, lost=lost, attempts=self._failed) from cause
        return wait

    def reply(self, message: AIMessage) -> Reply:
        """What the attempt that succeeded came to, and what those before it cost."""
        reply = _reply(message, self._prompt, self._limits, self._purpose, self._seconds())
        return replace(reply, lost=tuple(self._lost))

    def _note(self, error: Exception) -> None:
        """Charge what a failed attempt reported; note one that may be paid without a report."""
        tokens = reported(error)
        if tokens is None and not may_be_paid(error):
            return
        charge = _charge(
            tokens or Tokens(0, 0, 0, 0, measured=False),
            self._limits.cap,
            self._purpose,
            self._seconds(),
            "error",
        )
        self._lost.append(charge)
        self._limits = replace(self._limits, cap=self._limits.cap - charge["output_tokens"])

    def _seconds(self) -> float:
        return time.perf_counter() - self._started


def _constrains(policy: CapPolicy, model: BaseChatModel) -> bool:
    """Whether a policy passes a schema on; if not, a refused request was not refused for it."""
    free = Limits(cap=1024, timeout=1.0)
    return policy(model, free) != policy(model, replace(free, schema={"type": "object"}))


def _schema_refused(error: Exception, limits: Limits) -> bool:
    """Whether to try once more without the schema: a server that cannot constrain says 400."""
    return limits.schema is not None and _unsupported(error)


def _unsupported(error: Exception) -> bool:
    return status_of(error) in _UNSUPPORTED and not is_too_long(error)


def _without_schema(limits: Limits) -> Limits:
    return replace(limits, schema=None)


def _reply(
    message: AIMessage,
    prompt: Sequence[BaseMessage],
    limits: Limits,
    purpose: Purpose,
    seconds: float,
) -> Reply:
    tokens = tokens_of(message, prompt)
    finish = finish_of(message)
    if not tokens.measured:
        tokens = tokens._replace(output=_plausible(tokens.output, finish, limits.cap))
    charge = _charge(tokens, limits.cap, purpose, seconds, finish)
    text = visible_text(message)
    longest = max(_LEAST_READ, limits.cap * _LONGEST_TOKEN)
    if len(text) > longest:  # only from a server that takes no notice of the cap
        return Reply(text[:longest], "length", charge)
    return Reply(text, finish, charge)


def _charge(tokens: Tokens, cap: int, purpose: Purpose, seconds: float, finish: str) -> Charge:
    return Charge(
        node=purpose.node,
        step=purpose.step,
        cap=cap,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        reasoning_tokens=tokens.reasoning,
        cached_tokens=tokens.cached,
        seconds=round(seconds, 4),
        finish=finish,
        measured=tokens.measured,
    )


def _plausible(estimate: int, finish: str, cap: int) -> int:
    """What a capped reply can have cost, given the estimate from its text.

    One that ended at its cap cost the cap, however much of it was hidden thinking. An estimate a
    little above the cap is the estimate's fault; one far above it shows that the cap was ignored.
    """
    if estimate > 2 * cap + 16:
        return estimate
    return cap if finish == "length" else min(estimate, cap)
