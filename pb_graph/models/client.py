"""One chat model, called within a cap: the single door through which tokens are spent."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pb_graph.budget.account import (
    Budget,
    Reservation,
    accounts_in_scope,
    areserve_in,
    reserve_in,
    use_budget,
)
from pb_graph.budget.rates import Bill
from pb_graph.errors import BudgetUsedUpError, ModelCallError, ModelSetupError
from pb_graph.models.caps import (
    CapPolicy,
    Continuation,
    capped_arguments,
    constructor_overrides,
    continuation,
    policy_for,
)
from pb_graph.models.chat_models import (
    LoopConnections,
    describe_model,
    name_of,
    own_timeout,
    without_sdk_retries,
)
from pb_graph.models.input_bound import bound_input
from pb_graph.models.io import IO
from pb_graph.models.options import CallOptions
from pb_graph.models.provider_errors import (
    is_too_long,
    is_transient,
    retry_after,
    safe_cause,
    secrets_of,
    status_of,
    to_model_call_error,
)
from pb_graph.models.reply import (
    Reply,
    Tokens,
    charge_of,
    read_reply,
    tokens_of,
    tokens_of_error,
)

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.runnables import RunnableConfig

    from pb_graph.types import Charge

# LangGraph keeps tokens of calls with this tag out of a host's message stream.
_SILENT: RunnableConfig = {"tags": ["nostream"]}
_GRACE = 1.0  # seconds for a client with a time limit of its own to close its connection
_SAMPLING_TEMPERATURE = 0.7
_UNSUPPORTED = frozenset({400, 422})
_NO_CONTINUATION = (
    "This method continues unfinished replies, which this model's cap policy does not say its "
    "server can. Use a local model, or name the server's policy: build_graph(model, "
    "cap_policy=vllm), or sglang or llama_cpp, of pb_graph.models.caps."
)


@runtime_checkable
class ModelClient(Protocol):
    """A model that can be called within a cap.

    Attributes:
        name: The model's name, for charges and errors.
        model: The chat model behind the client.
        ignores_thinking_off: Whether the model was found to think although it was asked not to.
        prefill: What its server makes of a last message that the model began.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def model(self) -> BaseChatModel: ...  # noqa: D102
    @property
    def ignores_thinking_off(self) -> bool: ...  # noqa: D102
    @property
    def prefill(self) -> Continuation | None: ...  # noqa: D102

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call, in as many attempts as it takes.

        Args:
            messages: The prompt.
            options: The wishes of this call.
            io: The way to wait.

        Raises:
            ModelCallError: The call failed for good.
        """


class WrapperClient:
    """A client that delegates everything to another; the base for clients that add something.

    What a client learns about its model stays in one object, however it is wrapped.
    """

    def __init__(self, wrapped: ModelClient) -> None:
        self.wrapped = wrapped

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self.wrapped.name

    @property
    def model(self) -> BaseChatModel:
        """Return the chat model behind the client."""
        return self.wrapped.model

    @property
    def ignores_thinking_off(self) -> bool:
        """Return whether the model was found to think although it was asked not to."""
        return self.wrapped.ignores_thinking_off

    @property
    def prefill(self) -> Continuation | None:
        """Return what its server makes of a last message that the model began."""
        return self.wrapped.prefill

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call as the wrapped client does."""
        return await self.wrapped.call(messages, options, io)


class FallbackClient(WrapperClient):
    """A client with others to ask, in their order, when its model fails for good."""

    def __init__(self, wrapped: ModelClient, fallbacks: Sequence[ModelClient]) -> None:
        super().__init__(wrapped)
        self._clients = (wrapped, *fallbacks)

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call; all clients together have its cap.

        Raises:
            ModelCallError: All clients failed.
        """
        failures: list[ModelCallError] = []
        lost: tuple[Charge, ...] = ()
        accounts = _open_accounts(options)
        with use_budget(accounts[0]):
            for client in self._clients:
                try:
                    reply = await client.call(messages, options, io)
                    return replace(reply, lost=(*lost, *reply.lost))
                except ModelCallError as failure:
                    failures.append(failure)
                    lost = (*lost, *failure.lost)
                    if _max_left(accounts) < 1:
                        break
        raise _combined(failures, lost)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits for retries after transient faults, and the waits before them.

    The wait is drawn from 0 to ``initial_interval`` seconds, and the upper end doubles with every
    attempt up to ``max_interval`` (exponential backoff with full jitter), so that many callers that
    failed together do not come back together. What a server asks for (``Retry-After``) is waited on
    top.

    Attributes:
        max_retries: Attempts after the first one.
        initial_interval: Upper end of the first wait, in seconds.
        max_interval: Upper end of any wait, in seconds.
    """

    max_retries: int = 3
    initial_interval: float = 0.5
    max_interval: float = 8.0

    def wait(self, error: Exception, failed: int, longest: float) -> float | None:
        """Return the seconds to wait before the next attempt, or None if there is to be none.

        Args:
            error: What ended the last attempt.
            failed: Attempts that have failed, that one included.
            longest: Longest wait, in seconds, that a server may ask for. One that asks for more
                will refuse any earlier attempt, so there is none.
        """
        asked = retry_after(error)
        if failed > self.max_retries or asked > longest or not is_transient(error):
            return None
        ceiling = min(self.max_interval, self.initial_interval * 2.0 ** (failed - 1))
        return asked + random.uniform(0, ceiling)  # noqa: S311 -- spread, not secrecy


class ChatClient:
    """A LangChain chat model with its cap policy and its retry policy.

    The caller's object is left as it is: calls go through copies. All but the final answer go
    through one that never streams, because a streamed response often loses its usage.

    Attributes:
        name: The model's name, for charges and errors.
        model: The copy that does not stream.
        ignores_thinking_off: Whether the model was found to think although it was asked not to.
        prefill: What its server makes of a last message that the model began.

    Args:
        model: Any LangChain chat model.
        policy: How options become arguments; chosen from the model when not given.
        retry_policy: How often, and after how long, a call that failed is tried again.
    """

    def __init__(
        self,
        model: BaseChatModel,
        policy: CapPolicy | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        self._policy = policy or policy_for(model)
        self._retry_policy = retry_policy or RetryPolicy()
        model = without_sdk_retries(model)
        fields = type(model).model_fields
        change = constructor_overrides(model, self._policy)
        if getattr(model, "n", None):
            change["n"] = 1  # of several answers each may cost the cap, and one is read
        plain: dict[str, object] = {"disable_streaming": True}
        if "streaming" in fields:
            plain["streaming"] = False  # else the request asks for the stream that nobody reads
        streaming: dict[str, Any] = {"stream_usage": True} if "stream_usage" in fields else {}
        if (
            "stream_chunk_timeout" in fields
            and "stream_chunk_timeout" not in model.model_fields_set
        ):
            streaming["stream_chunk_timeout"] = None  # a model may think unseen for long
        self.model = model.model_copy(update=change | plain)
        self._streaming = model.model_copy(update=change | streaming)
        self._connections = (
            LoopConnections(self.model, self._streaming)
            if LoopConnections.are_shared(model)
            else None
        )
        self.name = name_of(model)
        self._secrets = secrets_of(model)
        self.prefill = continuation(self._policy)
        self.ignores_thinking_off = False
        # What the policy keeps to itself is not what a server refuses.
        free = CallOptions(cap=1024)
        with_schema = replace(free, schema={"type": "object"})
        keeps = self._policy(self.model, free) == self._policy(self.model, with_schema)
        self._unsupported = {"schema"} if keeps else set[str]()
        self._own_timeout = own_timeout(model)

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call, in as many attempts as it takes; all attempts together have its cap.

        Args:
            messages: The prompt.
            options: The wishes of this call.
            io: The way to wait.

        Raises:
            BudgetUsedUpError: Nothing is left of a budget that the call draws on.
            ModelCallError: The call failed for good; it says what to do.
            ModelSetupError: A reply is to be continued, which the server cannot.
        """
        if options.continue_last and not self.prefill:
            raise ModelSetupError(_NO_CONTINUATION)
        accounts = _open_accounts(options)
        counts_input = any(account.needs_input for account in accounts)
        lost: list[Charge] = []
        failed, refused = 0, set[str]()
        while True:
            options = self._supported(options, refused)
            call = Bill()
            if counts_input:
                call = bound_input(self.model, messages, self._arguments(messages, options))
            with await _reserve(accounts, call, lost, io) as reservation:
                attempt = replace(options, cap=reservation.tokens)
                started = time.perf_counter()
                try:
                    message = await self._ask(messages, attempt, io)
                except ModelSetupError:
                    reservation.settle(0)
                    raise
                except Exception as error:  # noqa: BLE001 -- told as one of ours, or tried again
                    failure = error
                else:
                    seconds = time.perf_counter() - started
                    echoes = self.prefill == "whole"
                    reply = read_reply(
                        message, messages, attempt, seconds=seconds, model=self.name, echoes=echoes
                    )
                    self._learn(reply, attempt, refused)
                    charge = reply.charge
                    reservation.settle(
                        charge["output_tokens"],
                        input_tokens=charge["input_tokens"] if charge["measured"] else None,
                        cached=charge["cached_tokens"],
                        written=tokens_of(message, messages, attempt.cap).written,
                    )
                    charge = _with_bill(charge, reservation)
                    return replace(reply, charge=charge, lost=tuple(lost))
                if (tokens := settle_failed(reservation, failure)) is not None:
                    seconds = time.perf_counter() - started
                    charge = charge_of(tokens, attempt, seconds, "error", self.name)
                    lost.append(_with_bill(charge, reservation))
            if wish := _refused_wish(failure, options):
                refused.add(wish)
                continue
            failed += 1
            wait = self._retry_policy.wait(failure, failed, options.timeout)
            if wait is None or _max_left(accounts) < 1:
                raise to_model_call_error(
                    failure,
                    secrets=self._secrets,
                    lost=tuple(lost),
                    attempts=failed,
                    model=describe_model(self.model),
                ) from safe_cause(failure, self._secrets)
            await io.sleep(wait)

    async def _ask(
        self, messages: Sequence[BaseMessage], options: CallOptions, io: IO
    ) -> AIMessage:
        models: tuple[BaseChatModel, ...] = (self.model, self._streaming)
        if self._connections:
            models = await io.call(lambda: models, self._connections.in_running_loop)
        model = models[1] if options.stream else models[0]
        if options.sampling:
            model = model.model_copy(update={"cache": False})  # no two samples are one
        arguments = self._arguments(messages, options)
        seconds = self._own_timeout or options.timeout
        if self._own_timeout is not None or "timeout" in arguments:
            seconds += _GRACE

        async def ainvoke(*args: Any, **kwargs: Any) -> AIMessage:  # noqa: ANN401
            async with asyncio.timeout(seconds):
                return await model.ainvoke(*args, **kwargs)

        config = {} if options.stream else _SILENT
        return await io.call(model.invoke, ainvoke, list(messages), config, **arguments)

    def _arguments(self, messages: Sequence[BaseMessage], options: CallOptions) -> dict[str, Any]:
        """Return the tools and the policy's arguments; for samples some temperature."""
        if options.continue_last and messages[-1].type != "ai":  # the first piece, as any reply
            options = replace(options, continue_last=False)
        tools: Any = self.model.bind_tools(options.tools) if options.tools else None
        capped = self._policy(self.model, options)
        arguments = capped_arguments(tools.kwargs, capped) if tools else capped
        if not options.sampling or getattr(self.model, "temperature", None) != 0:
            return arguments
        warm = {"temperature": _SAMPLING_TEMPERATURE}
        if "options" in arguments:  # Ollama's own API has it there
            return arguments | {"options": {**arguments["options"], **warm}}
        return arguments | warm

    def _learn(self, reply: Reply, options: CallOptions, refused: set[str]) -> None:
        """Remember what the server refused, and whether the model thinks whatever it is told."""
        self._unsupported |= refused
        is_full = reply.charge["output_tokens"] >= options.cap
        if options.thinking == "off" and is_full and not reply.text.strip():
            self.ignores_thinking_off = True

    def _supported(self, options: CallOptions, refused: set[str]) -> CallOptions:
        """Return the options without what the server refused, in this call or before."""
        if "schema" in self._unsupported | refused:
            options = replace(options, schema=None)
        if "stream" in self._unsupported | refused:
            options = replace(options, stream=False)
        return options


def settle_failed(reservation: Reservation, error: Exception) -> Tokens | None:
    """Count what a failed attempt cost; all that was reserved where nobody can say.

    Args:
        reservation: The reservation of the attempt.
        error: What ended the attempt.

    Returns:
        As `tokens_of_error`.
    """
    tokens = tokens_of_error(error)
    if tokens is None:
        reservation.settle(0)
    elif tokens.measured:
        reservation.settle(
            tokens.output, input_tokens=tokens.input, cached=tokens.cached, written=tokens.written
        )
    elif tokens.output:
        reservation.settle(tokens.output)
    else:
        reservation.forfeit()
    return tokens


def _open_accounts(options: CallOptions) -> tuple[Budget, ...]:
    """Open an account for all attempts of a call; return it with the others around the call."""
    around = accounts_in_scope()
    own = around[0].limit(tokens=options.cap) if around else Budget(options.cap)
    return (own, *around[1:])


def _max_left(accounts: Sequence[Budget]) -> int:
    """Return the tokens that attempts can still reserve."""
    return min(account.tokens_left(with_grants=True) for account in accounts)


def _with_bill(charge: Charge, reservation: Reservation) -> Charge:
    """Return a charge with the bill of a call whose input is counted."""
    if reservation.bill is None or not reservation.call.model:
        return charge
    return {**charge, "bill": [*reservation.bill]}


async def _reserve(
    accounts: Sequence[Budget], call: Bill, lost: Sequence[Charge], io: IO
) -> Reservation:
    """Reserve what is left of the cap, after a wait for calls that may return some of it."""
    tokens = max(1, _max_left(accounts))
    try:
        return await io.call(reserve_in, areserve_in, accounts, tokens, at_least=tokens, call=call)
    except BudgetUsedUpError as error:
        error.lost = tuple(lost)
        raise


def _refused_wish(error: Exception, options: CallOptions) -> str:
    """Return what the server may have refused, to be left out of the next attempt."""
    if status_of(error) not in _UNSUPPORTED or is_too_long(error):
        return ""
    if options.schema is not None:
        return "schema"
    return "stream" if options.stream else ""


def _combined(failures: Sequence[ModelCallError], lost: tuple[Charge, ...]) -> ModelCallError:
    """Return the failures of a model and of its fallbacks as one error."""
    if len(failures) == 1:
        return failures[0]
    return ModelCallError(
        " ".join(map(str, failures)),
        status=failures[-1].status,
        lost=lost,
        fatal=all(failure.fatal for failure in failures),
    )
