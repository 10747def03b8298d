"""Call a chat model within a cap. All tokens are spent here."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, message_to_dict
from langchain_core.runnables import RunnableConfig

from pb_graph.answers import without_thinking
from pb_graph.budget.account import Budget, Reservation, Wishes
from pb_graph.budget.bill import Bill
from pb_graph.budget.scope import ACCOUNTS
from pb_graph.errors import BudgetUsedUpError, ModelSetupError
from pb_graph.models.caps import (
    CONTINUING,
    CapPolicy,
    caps_in,
    constructor_overrides,
    describe_effort,
    policy_for,
    refuses_stream_options,
)
from pb_graph.models.chat_models import (
    copy_for_attempts,
    describe_model,
    key_of,
    ls_params_of,
    name_of,
    with_callback,
)
from pb_graph.models.input_bound import bound_input
from pb_graph.models.options import CallOptions
from pb_graph.models.provider_errors import (
    is_transient,
    retry_after,
    safe_cause,
    secrets_of,
    status_of,
    to_model_call_error,
)
from pb_graph.models.reply import (
    IO,
    MAX_THOUGHT,
    Reply,
    StreamWatch,
    finish_of,
    thought_of,
    tokens_of,
    tokens_of_error,
)
from pb_graph.types import Charge, ReportWarning

# LangGraph keeps tokens of calls with this tag out of a host's message stream.
_SILENT: RunnableConfig = {"tags": ["nostream"]}
_TIMEOUTS = ("timeout", "request_timeout", "default_request_timeout")
_SAMPLING_TEMPERATURE = 0.7
REFUSED = frozenset({400, 422})
_NO_CONTINUATION = (
    "This method continues unfinished replies, which this model's server is not known to do. Use a "
    'local model, or name the server: cap_policy="vllm" or "llama_cpp".'
)


@runtime_checkable
class ModelClient(Protocol):
    """A model that can be called within a cap.

    Attributes:
        name: The model's name, for charges and errors.
        model: The chat model behind the client.
    """

    name: str
    model: BaseChatModel

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call, with retries. The cap limits all attempts together.

        Args:
            messages: The prompt.
            options: Options of this call.
            io: How to wait, `BLOCKING` or `ASYNC`.

        Raises:
            BudgetUsedUpError: If a budget that the call draws on is used up.
            ModelCallError: If the call and its retries fail; the message says what to do.
            ModelSetupError: If the server cannot continue a reply as `options` asks.
        """


class WrapperClient:
    """Base class of clients that wrap another client."""

    def __init__(self, wrapped: ModelClient) -> None:
        self.wrapped, self.name, self.model = wrapped, wrapped.name, wrapped.model


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits for retries after transient faults, and the waits before them.

    The wait is drawn from 0 to ``initial_interval`` seconds, and the upper end doubles with every
    attempt up to ``max_interval`` (exponential backoff with full jitter), so that callers that
    failed together do not retry at the same moment. The wait that a server asks for
    (``Retry-After``) is added.

    Attributes:
        max_retries: Attempts after the first one.
        initial_interval: Upper end of the first wait, in seconds.
        max_interval: Upper end of any wait, in seconds.
    """

    max_retries: int = 3
    initial_interval: float = 0.5
    max_interval: float = 8.0

    def wait(self, error: Exception, failed: int, longest: float) -> float | None:
        """Return the seconds to wait before the next attempt; None if no attempt follows.

        Args:
            error: The error of the last attempt.
            failed: Attempts that have failed, that one included.
            longest: Longest wait, in seconds, that a server may ask for. If a server asks for more,
                no attempt follows, because it would be refused.
        """
        delay = retry_after(error)
        if failed > self.max_retries or delay > longest or not is_transient(error):
            return None
        ceiling = min(self.max_interval, self.initial_interval * 2.0 ** (failed - 1))
        return delay + random.uniform(0, ceiling)  # noqa: S311 -- spread, not secrecy


class ChatClient:
    """A LangChain chat model with its cap policy and its retry policy: a `ModelClient`.

    The caller's object is not changed: calls use copies. Only the final answer is streamed, because
    a streamed response often has no usage.

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
        model = copy_for_attempts(model)
        fields = type(model).model_fields
        change = constructor_overrides(model)
        if getattr(model, "n", None):
            change["n"] = 1  # each of n answers could cost the cap, and only one is read
        plain: dict[str, object] = {"disable_streaming": True}
        if "streaming" in fields:
            plain["streaming"] = False  # else the request asks for a stream, which nobody reads
        streaming: dict[str, Any] = {}
        if "stream_chunk_timeout" in fields.keys() - model.model_fields_set:
            streaming["stream_chunk_timeout"] = None  # models may think for minutes
        self.name, self._key = name_of(model), key_of(model)
        self._own_caps = caps_in({name: getattr(model, name) for name in model.model_fields_set})
        self.model = model.model_copy(update=change | plain)
        self._streaming = model.model_copy(update=change | streaming)
        self._timeouts = {getattr(model, name, None) for name in _TIMEOUTS} - {None}
        self._provider = ls_params_of(model)().get("ls_provider") or ""
        self._secrets = secrets_of(model)
        self._refuses_schema = False

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call, as `ModelClient.call` describes it."""
        if options.continue_last and self._policy not in CONTINUING:
            raise ModelSetupError(_NO_CONTINUATION)
        enclosing = ACCOUNTS.get()
        own = enclosing[0].limit(tokens=options.cap) if enclosing else Budget(options.cap)
        accounts = (own, *enclosing[1:])  # `own` limits all attempts together
        options = replace(options, cap=min([options.cap, *self._own_caps]))
        lost: list[Charge] = []
        failed, is_bare = 0, self._refuses_schema
        while True:
            options = replace(options, schema=None) if is_bare else options
            try:
                outcome = await self._attempt(messages, options, accounts, lost, io)
            except BudgetUsedUpError as error:
                error.lost = tuple(lost)
                raise
            if isinstance(outcome, Reply):
                self._refuses_schema |= is_bare
                return outcome
            if options.schema is not None and status_of(outcome) in REFUSED:
                is_bare = True
                continue
            if options.stream and refuses_stream_options(self._streaming, outcome):
                self._streaming = self._streaming.model_copy(update={"stream_usage": False})
                continue
            failed += 1
            wait = self._retry_policy.wait(outcome, failed, options.timeout)
            if wait is None or min(map(Budget.tokens_left, accounts)) < 1:
                raise to_model_call_error(
                    outcome,
                    secrets=self._secrets,
                    lost=tuple(lost),
                    attempts=failed,
                    model=describe_model(self.model),
                ) from safe_cause(outcome, self._secrets)
            await io.sleep(wait)

    async def _attempt(
        self,
        messages: Sequence[BaseMessage],
        options: CallOptions,
        accounts: Sequence[Budget],
        lost: list[Charge],
        io: IO,
    ) -> Reply | Exception:
        """Return the reply, or the error of a failed attempt. Its charge is added to `lost`."""
        call = Bill(self._key)  # without input where no budget counts it
        if any(account.needs_input for account in accounts):
            arguments = self._arguments(messages, options)
            call = await io.load(bound_input, self.model, messages, arguments)
        own, *also = accounts
        limit = min(map(Budget.tokens_left, accounts))
        wishes = Wishes(wait_for=limit, call=call, also=also)
        with await io.call(own.reserve, own.areserve, options.cap, **wishes) as reservation:
            options = replace(options, cap=reservation.tokens)
            attempt = _Attempt(options, call, self.name)
            try:
                arguments = self._arguments(messages, options)
                effort = describe_effort(arguments, options)
                message = await self._send(messages, options, arguments, io)
            except Exception as error:  # noqa: BLE001 -- raised as our own, or retried
                if tokens := settle_failed(reservation, error):
                    lost.append(attempt.charge(tokens, reservation.bill or call, "error"))
                return error
            reply, bill = attempt.read(message, messages)
            reservation.settle([bill])
            return replace(reply, lost=tuple(lost), effort=effort)

    def _arguments(self, messages: Sequence[BaseMessage], options: CallOptions) -> dict[str, Any]:
        if options.continue_last and messages[-1].type != "ai":  # nothing to continue yet
            options = replace(options, continue_last=False)
        tools: Any = self.model.bind_tools(options.tools) if options.tools else None
        policy = self._policy(self._model_for(options), options)
        return {**(tools.kwargs if tools else {}), **policy}

    async def _send(
        self,
        messages: Sequence[BaseMessage],
        options: CallOptions,
        arguments: dict[str, Any],
        io: IO,
    ) -> AIMessage:
        """Send one request, within the time limit of the options, or the model's own for a read."""
        model = with_callback(self._model_for(options), StreamWatch(self._provider))
        is_own = self._timeouts and self._timeouts != {options.timeout}
        limit = None if is_own else options.timeout
        config = {} if options.stream else _SILENT
        calls = model.invoke, model.ainvoke
        return await io.within(limit, *calls, list(messages), config, **arguments)

    def _model_for(self, options: CallOptions) -> BaseChatModel:
        """Return the model for a call; for samples a copy that does not give a reply again."""
        model = self._streaming if options.stream else self.model
        if not options.sampling:
            return model
        change: dict[str, Any] = {"cache": False}
        if getattr(model, "temperature", None) == 0:
            change["temperature"] = _SAMPLING_TEMPERATURE
        return model.model_copy(update=change)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt of a call: its cap is that of `options`, and `call` is what was reserved."""

    options: CallOptions
    call: Bill
    model: str
    started: float = field(default_factory=time.perf_counter)

    def read(self, message: AIMessage, prompt: Sequence[BaseMessage]) -> tuple[Reply, Bill]:
        """Convert a response to a reply and its bill."""
        finish, cap = finish_of(message), self.options.cap
        tokens = tokens_of(message, prompt, cap)
        warnings: list[ReportWarning] = []
        if tokens.output > cap:
            note = f"{self.model} ignored its cap of {cap} tokens and wrote {tokens.output}"
            warnings.append(ReportWarning(code="cap_ignored", message=note))
        bill = tokens.most(self.call)
        charge = self.charge(tokens, bill, finish)
        is_piece = self.options.continue_last  # a continuation keeps its whitespace
        reply = Reply(
            _continuation(message, prompt) if is_piece else without_thinking(message.text),
            finish,
            charge,
            warnings=tuple(warnings),
            tool_message=message_to_dict(message) if message.tool_calls else None,
            message_id=message.id,
            thought=thought_of(message)[-MAX_THOUGHT:],
        )
        return reply, bill

    def charge(self, tokens: Bill, most: Bill, finish: str) -> Charge:
        """Return the entry of the attempt in the ledger, with the most that was settled."""
        return Charge(
            node=self.options.purpose.node,
            step=self.options.purpose.step,
            cap=self.options.cap,
            model=self.call.model,
            usage=tokens.usage(),
            measured=tokens.is_measured,
            most=most.usage(),
            seconds=round(time.perf_counter() - self.started, 4),
            finish=finish,
        )


def _continuation(message: AIMessage, prompt: Sequence[BaseMessage]) -> str:
    """Return a continuation without the beginning, which some servers repeat."""
    start = prompt[-1].text if prompt[-1].type == "ai" else ""
    prefix = start if message.text.startswith(start) else start.rstrip()  # some templates strip it
    return message.text.removeprefix(prefix)


def settle_failed(reservation: Reservation, error: Exception) -> Bill | None:
    """Charge a failed attempt; an unknown cost counts as the whole reservation.

    Args:
        reservation: The reservation of the attempt.
        error: The error of the attempt.

    Returns:
        As `tokens_of_error`.
    """
    tokens = tokens_of_error(error)
    if tokens is None:
        reservation.settle(0)
    elif tokens.is_measured:
        reservation.settle([tokens.most(reservation.call)])
    else:
        reservation.forfeit()
    return tokens
