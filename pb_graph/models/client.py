"""One chat model, called within limits: the single door through which tokens are spent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, BaseMessage

from pb_graph.budget.ledger import Charge
from pb_graph.models.caps import CapPolicy, Limits, plain, policy_for
from pb_graph.models.faults import explain, status_of
from pb_graph.models.usage import finish_of, tokens_of, visible_text

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig

# LangGraph keeps tokens of calls with this tag out of a host's message stream.
_QUIET: RunnableConfig = {"tags": ["nostream"]}
_UNSUPPORTED = frozenset({400, 422})


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the visible text, why it ended, and what the call was charged."""

    text: str
    finish: str
    charge: Charge


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a call is made for, as the ledger and the traces show it."""

    node: str
    step: int | None = None


class ChatClient:
    """A chat model with its cap policy.

    Args:
        model: Any LangChain chat model. The caller's object is left as it is; calls go through a
            copy that never streams, because a streamed response often loses its usage.
        policy: How limits become arguments; chosen from the model when not given.
    """

    def __init__(self, model: BaseChatModel, policy: CapPolicy | None = None) -> None:
        quiet: dict[str, object] = {"disable_streaming": True}
        if "streaming" in type(model).model_fields:
            quiet["streaming"] = False  # else the request asks for the stream that nobody reads
        self.model = model.model_copy(update=quiet)
        self._policy = policy or policy_for(model)
        self._constrains = True
        # The HTTP client's own time-out is kept; a plain model has none that we could set.
        self._guarded = self._policy is plain and getattr(model, "timeout", None) is None

    def call(self, messages: Sequence[BaseMessage], limits: Limits, purpose: Purpose) -> Reply:
        """Make one call.

        Raises:
            ModelCallError: The call failed for good; it says what to do.
        """
        started, limits = time.perf_counter(), self._understood(limits)
        try:
            message = self.model.invoke(list(messages), _QUIET, **self._policy(self.model, limits))
        except Exception as error:
            if not _schema_refused(error, limits):
                raise explain(error) from error
            reply = self.call(messages, _without_schema(limits), purpose)
            self._constrains = False
            return reply
        return _reply(message, messages, limits, purpose, time.perf_counter() - started)

    async def acall(
        self, messages: Sequence[BaseMessage], limits: Limits, purpose: Purpose
    ) -> Reply:
        """`call` for an event loop."""
        started, limits = time.perf_counter(), self._understood(limits)
        try:
            message = await self._bounded(messages, limits)
        except Exception as error:
            if not _schema_refused(error, limits):
                raise explain(error) from error
            reply = await self.acall(messages, _without_schema(limits), purpose)
            self._constrains = False
            return reply
        return _reply(message, messages, limits, purpose, time.perf_counter() - started)

    async def _bounded(self, messages: Sequence[BaseMessage], limits: Limits) -> AIMessage:
        call = self.model.ainvoke(list(messages), _QUIET, **self._policy(self.model, limits))
        if not self._guarded:
            return await call
        async with asyncio.timeout(limits.timeout):
            return await call

    def _understood(self, limits: Limits) -> Limits:
        """Without the schema, once this server has been found not to know what to do with it."""
        return limits if self._constrains else _without_schema(limits)


def _schema_refused(error: Exception, limits: Limits) -> bool:
    """Whether to try once more without the schema: a server that cannot constrain says 400."""
    return limits.schema is not None and status_of(error) in _UNSUPPORTED


def _without_schema(limits: Limits) -> Limits:
    return Limits(limits.cap, limits.timeout)


def _reply(
    message: AIMessage,
    prompt: Sequence[BaseMessage],
    limits: Limits,
    purpose: Purpose,
    seconds: float,
) -> Reply:
    tokens = tokens_of(message, prompt)
    finish = finish_of(message)
    output = tokens.output if tokens.measured else _plausible(tokens.output, finish, limits.cap)
    charge = Charge(
        node=purpose.node,
        step=purpose.step,
        cap=limits.cap,
        input_tokens=tokens.input,
        output_tokens=output,
        reasoning_tokens=tokens.reasoning,
        cached_tokens=tokens.cached,
        seconds=round(seconds, 4),
        finish=finish,
        measured=tokens.measured,
    )
    return Reply(visible_text(message), finish, charge)


def _plausible(estimate: int, finish: str, cap: int) -> int:
    """What a capped reply can have cost, given the estimate from its text.

    One that ended at its cap cost the cap, however much of it was hidden thinking. An estimate a
    little above the cap is the estimate's fault; one far above it shows that the cap was ignored.
    """
    if estimate > 2 * cap + 16:
        return estimate
    return cap if finish == "length" else min(estimate, cap)
