"""One chat model, called within limits: the single door through which tokens are spent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage

from pb_graph.errors import ModelSetupError
from pb_graph.models.attempts import Attempts, without_schema
from pb_graph.models.caps import CapPolicy, Limits, constructor_overrides, policy_for
from pb_graph.models.caps.limits import CONTINUING
from pb_graph.models.charging import Attempt
from pb_graph.models.provider_errors import secrets_of
from pb_graph.models.retry import RetryPolicy, has_own_retries, without_sdk_retries
from pb_graph.models.streaming import StreamedReply
from pb_graph.models.timeout import own_timeout, within_deadline

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig

    from pb_graph.models.reply import Purpose, Reply
    from pb_graph.models.streaming import OnText

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
    Transient faults are tried again, unless the model's own client does so by itself (a chat model
    object with ``max_retries`` above 0 keeps its retries, and their cost stays unseen). Attempts of
    one call share its cap: what a failed one is known to have cost is off limits to the next.

    Attributes:
        continues: What its server makes of an unfinished reply, by what its policy knows.

    Args:
        model: Any LangChain chat model. The caller's object is left as it is; calls go through a
            copy that never streams, because a streamed response often loses its usage. Only a call
            that is to be heard goes through one that streams, and asks for the usage.
        policy: How limits become arguments; chosen from the model when not given.
        retry_policy: How often, and after how long, a call that failed is tried again.
    """

    def __init__(
        self,
        model: BaseChatModel,
        policy: CapPolicy | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        quiet: dict[str, object] = {"disable_streaming": True} | without_sdk_retries(model)
        if "streaming" in type(model).model_fields:
            quiet["streaming"] = False  # else the request asks for the stream that nobody reads
        self._policy = policy or policy_for(model)
        self.model = model.model_copy(update=quiet | constructor_overrides(model, self._policy))
        aloud = {"stream_usage": True} if "stream_usage" in type(model).model_fields else {}
        self._speaking = model.model_copy(
            update=aloud | without_sdk_retries(model) | constructor_overrides(model, self._policy)
        )
        self._sampler = self.model.model_copy(update={"cache": False})  # no two samples are one
        self.continues = next((how for it, how in CONTINUING if it is self._policy), None)
        self._constrains = _passes_on(self._policy, self.model, schema={"type": "object"})
        self._tells_probabilities = _passes_on(self._policy, self.model, probabilities=True)
        self._streams = True
        ours = RetryPolicy(max_retries=0) if has_own_retries(model) else retry_policy
        self._retry_policy = ours or RetryPolicy()
        self._secrets = secrets_of(model)
        self._own_timeout = own_timeout(model)

    def call(
        self,
        messages: Sequence[BaseMessage],
        limits: Limits,
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
            ModelCallError: The call failed for good; it says what to do.
            ModelSetupError: A reply is to be continued, which the server cannot.
        """
        attempts = self._attempts(messages, limits, purpose, on_text)
        while True:
            with Attempt(attempts) as attempt:
                outcome = self._attempt(messages, attempt.reserved(), attempts.on_text)
                if isinstance(outcome, AIMessage):
                    return attempt.settled(self._remember_refusals(attempts, outcome))
                attempt.failed(outcome)
            time.sleep(attempts.delay_before_next(outcome))

    async def acall(
        self,
        messages: Sequence[BaseMessage],
        limits: Limits,
        purpose: Purpose,
        on_text: OnText | None = None,
    ) -> Reply:
        """`call` for an event loop."""
        attempts = self._attempts(messages, limits, purpose, on_text)
        while True:
            with Attempt(attempts) as attempt:
                within = await attempt.areserved()
                outcome = await self._aattempt(messages, within, attempts.on_text)
                if isinstance(outcome, AIMessage):
                    return attempt.settled(self._remember_refusals(attempts, outcome))
                attempt.failed(outcome)
            await asyncio.sleep(attempts.delay_before_next(outcome))

    def _attempt(
        self, messages: Sequence[BaseMessage], limits: Limits, on_text: OnText | None
    ) -> AIMessage | Exception:
        """One attempt. Errors are returned: raised from here, they would hang on to each other."""
        seconds = self._own_timeout or limits.timeout
        streamed = StreamedReply(self._speaking, on_text, seconds) if on_text else None

        def attempt(bound: Mapping[str, Any]) -> AIMessage:
            if streamed is None:
                model = self._sampler if limits.sampled else self.model
                return model.invoke(list(messages), _QUIET, **bound)
            for chunk in self._speaking.stream(list(messages), _QUIET, **bound):
                streamed.add(chunk)
            return streamed.message()

        try:
            bound = self._arguments(messages, limits)
            return within_deadline(partial(attempt, bound), seconds + self._grace(bound))
        except Exception as error:  # noqa: BLE001 -- the attempts decide what it means
            if streamed:
                streamed.give_up()
            return error

    async def _aattempt(
        self, messages: Sequence[BaseMessage], limits: Limits, on_text: OnText | None
    ) -> AIMessage | Exception:
        seconds = self._own_timeout or limits.timeout
        try:
            bound = self._arguments(messages, limits)
            async with asyncio.timeout(seconds + self._grace(bound)):
                if on_text is None:
                    model = self._sampler if limits.sampled else self.model
                    return await model.ainvoke(list(messages), _QUIET, **bound)
                streamed = StreamedReply(self._speaking, on_text, seconds)
                async for chunk in self._speaking.astream(list(messages), _QUIET, **bound):
                    streamed.add(chunk)
                return streamed.message()
        except Exception as error:  # noqa: BLE001 -- the attempts decide what it means
            return error

    def _arguments(self, messages: Sequence[BaseMessage], limits: Limits) -> dict[str, Any]:
        """What the policy says; and where samples are to differ, no temperature of 0."""
        if limits.continues and messages[-1].type != "ai":  # the first piece, as any reply
            limits = replace(limits, continues=False)
        bound = self._policy(self.model, limits)
        if not limits.sampled or getattr(self.model, "temperature", None) != 0:
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
        limits: Limits,
        purpose: Purpose,
        on_text: OnText | None,
    ) -> Attempts:
        if limits.continues and not self.continues:
            raise ModelSetupError(_NO_CONTINUATION)
        if limits.continues and self.continues == "repeats":
            limits = replace(limits, repeats=True)
        # Without the schema, once this server has been found not to know what to do with it.
        limits = limits if self._constrains else without_schema(limits)
        limits = limits if self._tells_probabilities else replace(limits, probabilities=False)
        attempts = Attempts(messages, limits, purpose, self._retry_policy, self._secrets)
        attempts.on_text = on_text if self._streams else None
        return attempts

    def _remember_refusals(self, attempts: Attempts, message: AIMessage) -> Reply:
        if attempts.schema_refused:
            self._constrains = False
        if attempts.probabilities_refused:
            self._tells_probabilities = False
        if attempts.stream_refused:
            self._streams = False
        return attempts.reply(message)


def _passes_on(policy: CapPolicy, model: BaseChatModel, **asked: Any) -> bool:  # noqa: ANN401
    """Whether a policy passes a wish on; if not, a refused request was not refused for it."""
    free = Limits(cap=1024, timeout=1.0)
    return policy(model, free) != policy(model, replace(free, **asked))
