"""One chat model, called within limits: the single door through which tokens are spent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from langchain_core.messages import AIMessage, BaseMessage

from pb_graph.errors import BudgetUsedUpError, ModelCallError, ModelSetupError
from pb_graph.models.attempts import Attempts, Wish, joined, limits_after
from pb_graph.models.caps import (
    CapPolicy,
    capped_arguments,
    constructor_overrides,
    continuation,
    policy_for,
)
from pb_graph.models.charging import Attempt
from pb_graph.models.connections import Connections
from pb_graph.models.naming import name_of
from pb_graph.models.options import CallOptions
from pb_graph.models.retry import RetryPolicy, without_sdk_retries
from pb_graph.models.secrets import bare_addresses_in_logs, secrets_of
from pb_graph.models.timeout import own_timeout, patient_stream, within_deadline

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig

    from pb_graph.models.options import OnText
    from pb_graph.models.reply import Reply
    from pb_graph.types import Purpose

T = TypeVar("T")

# LangGraph keeps tokens of calls with this tag out of a host's message stream.
_QUIET: RunnableConfig = {"tags": ["nostream"]}

_GRACE = 1.0
_SAMPLING_TEMPERATURE = 0.7
_NO_CONTINUATION = (
    "This method goes on from unfinished replies, which this model's cap policy does not say its "
    "server can. Use a local model, or say which server it is: build_graph(model, "
    "cap_policy=vllm), or sglang or llama_cpp, of pb_graph.models.caps."
)


class ChatClient:
    """A chat model with its cap policy and its retry policy.

    Every attempt ends within a time limit: the model's own if it has one, else that of its limits.
    It is kept here, since an HTTP client's own starts anew with everything that it receives.
    Transient faults are tried again by the retry policy alone: the SDK below repeats nothing.
    Attempts of one call share its cap: what a failed one is known to have cost is off limits to the
    next.

    Attributes:
        continues: What its server makes of an unfinished reply, by what its policy knows.
        thinks_regardless: Whether it has been found to think although it was asked not to.

    Args:
        model: Any LangChain chat model. The caller's object is left as it is; calls go through a
            copy that never streams, because a streamed response often loses its usage. Only a call
            that is to be heard goes through one that streams, and asks for the usage.
        policy: How limits become arguments; chosen from the model when not given.
        retry_policy: How often, and after how long, a call that failed is tried again.
        arguments: What else goes with every call.
    """

    def __init__(
        self,
        model: BaseChatModel,
        policy: CapPolicy | None = None,
        retry_policy: RetryPolicy | None = None,
        *,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self._bound = arguments or {}
        self._fallbacks: tuple[ChatClient, ...] = ()
        self._policy = policy or policy_for(model)
        model = without_sdk_retries(model)
        change = constructor_overrides(model, self._policy)
        if getattr(model, "n", None):
            change["n"] = 1  # of several answers each may cost the cap, and one is read
        quiet: dict[str, object] = {"disable_streaming": True} | change
        if "streaming" in type(model).model_fields:
            quiet["streaming"] = False  # else the request asks for the stream that nobody reads
        self.model = model.model_copy(update=quiet)
        aloud = {"stream_usage": True} if "stream_usage" in type(model).model_fields else {}
        speaking = model.model_copy(update=aloud | patient_stream(model) | change)
        sampler = self.model.model_copy(update={"cache": False})  # no two samples are one
        self._connections = Connections(self.model, speaking, sampler)
        self.continues = continuation(self._policy)
        self.thinks_regardless = False
        self._lacks = _not_passed_on(self._policy, self.model)
        self._retry_policy = retry_policy or RetryPolicy()
        self._secrets = secrets_of(model)
        self.name = name_of(model)
        bound_timeout = self._bound.get("timeout")
        self._own_timeout = own_timeout(model) if bound_timeout is None else float(bound_timeout)

    def call(
        self,
        messages: Sequence[BaseMessage],
        limits: CallOptions,
        purpose: Purpose,
        on_text: OnText | None = None,
    ) -> Reply:
        """Make one call, in as many attempts as it takes.

        Args:
            messages: The prompt.
            limits: Cap and time limit, for all attempts together and for each.
            purpose: What it is charged to.
            on_text: If given, the reply is streamed, and this told its text. It begins anew when an
                attempt breaks off.

        Raises:
            ModelCallError: The call failed for good, also with all fallbacks; it says what to do.
            ModelSetupError: A reply is to be continued, which the server cannot.
            Exception: What a host's callback raised, as it is.
        """
        return finished(self.reply_to(messages, limits, purpose, on_text, blocking=True))

    async def acall(
        self,
        messages: Sequence[BaseMessage],
        limits: CallOptions,
        purpose: Purpose,
        on_text: OnText | None = None,
    ) -> Reply:
        """`call` for an event loop."""
        return await self.reply_to(messages, limits, purpose, on_text, blocking=False)

    async def reply_to(
        self,
        messages: Sequence[BaseMessage],
        limits: CallOptions,
        purpose: Purpose,
        on_text: OnText | None,
        *,
        blocking: bool,
    ) -> Reply:
        """Make one call; a blocking one awaits nothing. This is what other clients override."""
        failures: list[ModelCallError] = []
        for client in (self, *self._fallbacks):
            lost = [charge for failure in failures for charge in failure.lost]
            try:
                left = limits_after(lost, limits)
                reply = await client._reply(messages, left, purpose, on_text, blocking=blocking)  # noqa: SLF001
                return replace(reply, lost=(*lost, *reply.lost))
            except ModelCallError as failure:
                failures.append(failure)
                if isinstance(failure, BudgetUsedUpError):
                    break
        raise joined(failures)

    def with_fallbacks(self, others: Sequence[ChatClient]) -> Self:
        """This client, with others to ask, in this order, when its model fails for good."""
        self._fallbacks += tuple(others)
        return self

    async def _reply(
        self,
        messages: Sequence[BaseMessage],
        limits: CallOptions,
        purpose: Purpose,
        on_text: OnText | None,
        *,
        blocking: bool,
    ) -> Reply:
        attempts = self._attempts(messages, limits, purpose, on_text)
        while True:
            with Attempt(attempts) as attempt, bare_addresses_in_logs():
                within = await attempt.reserved(blocking=blocking)
                outcome = (
                    self._attempt(messages, within, attempts)
                    if blocking
                    else await self._aattempt(messages, within, attempts)
                )
                if isinstance(outcome, AIMessage):
                    reply = attempts.reply(outcome)
                    self._learn(attempts.refused, reply, limits)
                    return attempt.settled(reply)
                attempt.failed(outcome)
            seconds = attempts.delay_before_next(outcome)
            if blocking:
                time.sleep(seconds)  # noqa: ASYNC251 -- this one blocks
            else:
                await asyncio.sleep(seconds)

    def _attempt(
        self, messages: Sequence[BaseMessage], limits: CallOptions, attempts: Attempts
    ) -> AIMessage | Exception:
        """One attempt. Errors are returned: raised from here, they would hang on to each other."""
        seconds = self._own_timeout or limits.timeout
        streamed = attempts.streamed(self.model, seconds)

        def attempt(bound: Mapping[str, Any]) -> AIMessage:
            quiet, speaking, sampler = self._connections.blocking()
            if streamed is None:
                return (sampler if limits.sampling else quiet).invoke(
                    list(messages), _QUIET, **bound
                )
            chunks: Any = speaking.stream(list(messages), _QUIET, **bound)
            with closing(chunks):
                for chunk in chunks:
                    streamed.add(chunk)
                    if streamed.is_over:
                        break
            return streamed.message()

        try:
            bound = self._arguments(messages, limits)
            return within_deadline(partial(attempt, bound), seconds + self._grace(bound))
        except Exception as error:  # noqa: BLE001 -- the attempts decide what it means
            return attempts.rescued(error) or error

    async def _aattempt(
        self, messages: Sequence[BaseMessage], limits: CallOptions, attempts: Attempts
    ) -> AIMessage | Exception:
        seconds = self._own_timeout or limits.timeout
        streamed = attempts.streamed(self.model, seconds)
        try:
            bound = self._arguments(messages, limits)
            async with asyncio.timeout(seconds + self._grace(bound)):
                quiet, speaking, sampler = await self._connections.awaited()
                if streamed is None:
                    model = sampler if limits.sampling else quiet
                    return await model.ainvoke(list(messages), _QUIET, **bound)
                chunks: Any = speaking.astream(list(messages), _QUIET, **bound)
                async with aclosing(chunks):
                    async for chunk in chunks:
                        streamed.add(chunk)
                        if streamed.is_over:
                            break
                return streamed.message()
        except Exception as error:  # noqa: BLE001 -- the attempts decide what it means
            return attempts.rescued(error) or error

    def _arguments(self, messages: Sequence[BaseMessage], limits: CallOptions) -> dict[str, Any]:
        """What the user bound, the tools, and the policy's; for samples, no temperature of 0."""
        if limits.continue_last and messages[-1].type != "ai":  # the first piece, as any reply
            limits = replace(limits, continue_last=False)
        tools: Any = self.model.bind_tools(limits.tools) if limits.tools else None
        given = {**self._bound, **(tools.kwargs if tools else {})}
        bound = capped_arguments(given, self._policy(self.model, limits))
        if "timeout" in self._bound:  # as that of a model, it stands
            bound["timeout"] = self._bound["timeout"]
        if not limits.sampling or getattr(self.model, "temperature", None) != 0:
            return bound
        options = bound.get("options")  # Ollama's own API has it there
        if options is not None:
            return bound | {"options": {**options, "temperature": _SAMPLING_TEMPERATURE}}
        return bound | {"temperature": _SAMPLING_TEMPERATURE}

    def _grace(self, bound: Mapping[str, object]) -> float:
        """Seconds for a client with a limit of its own to end the attempt, and to close it well."""
        return _GRACE if self._own_timeout is not None or "timeout" in bound else 0.0

    def _attempts(
        self,
        messages: Sequence[BaseMessage],
        limits: CallOptions,
        purpose: Purpose,
        on_text: OnText | None,
    ) -> Attempts:
        if limits.continue_last and not self.continues:
            raise ModelSetupError(_NO_CONTINUATION)
        if "schema" in self._lacks:
            limits = replace(limits, schema=None)
        attempts = Attempts(
            messages, limits, purpose, self._retry_policy, self._secrets, self.model
        )
        attempts.echoes = self.continues == "repeats"
        attempts.on_text = None if "stream" in self._lacks else on_text
        return attempts

    def _learn(self, refused: set[Wish], reply: Reply, limits: CallOptions) -> None:
        full = reply.charge["output_tokens"] >= reply.charge["cap"]
        if limits.thinking == "off" and full and not reply.text.strip():
            self.thinks_regardless = True
        self._lacks |= refused


def finished(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that blocks wherever it waits.

    Raises:
        RuntimeError: It waits for an event loop, and there is none.
    """
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    work.close()
    msg = f"{work} awaited something in a blocking run, where a call is to block instead"
    raise RuntimeError(msg)


def _not_passed_on(policy: CapPolicy, model: BaseChatModel) -> set[Wish]:
    """The wishes that a policy keeps to itself; no request is refused for one of them."""
    free = CallOptions(cap=1024, timeout=1.0)
    wanted = replace(free, schema={"type": "object"})
    return {"schema"} if policy(model, wanted) == policy(model, free) else set()
