"""Call a chat model within a cap. All tokens are spent here."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, message_to_dict
from langchain_core.runnables import RunnableConfig

from pb_graph.answers import without_thinking
from pb_graph.budget.account import ACCOUNTS, Budget, available_tokens, open_run, use_budget
from pb_graph.budget.bill import Bill, Reservation
from pb_graph.errors import BudgetUsedUpError, ModelCallError, ModelSetupError, PlanAndBudgetError
from pb_graph.models import caps
from pb_graph.models.input_bound import bound_input, learn_input
from pb_graph.models.options import (
    CallOptions,
    caps_in,
    copy_for_calls,
    describe_effort,
    key_of,
    name_of,
    serialized_of,
)
from pb_graph.models.provider_errors import fault_of, refusal_of, retry_after, to_model_call_error
from pb_graph.models.reply import IO, MAX_THOUGHT, Attempt, Reply, attempt, finish_of, thought_of
from pb_graph.types import Charge, Purpose, ReportWarning

T = TypeVar("T")

# LangGraph keeps tokens of calls with this tag out of a host's message stream.
_SILENT: RunnableConfig = {"tags": ["nostream"]}
_TIMEOUTS = ("timeout", "request_timeout", "default_request_timeout")
_SAMPLING_TEMPERATURE = 0.7
_NO_CONTINUATION = (
    "This method continues unfinished replies, which this model's server is not known to do. Use a "
    'local model, or name the server: cap_policy="vllm" or "llama_cpp".'
)


class ModelClient:
    """A model that can be called within a cap.

    Args:
        model: The chat model behind the client.

    Attributes:
        name: The model's name, for errors.
        key: The model's key, for charges.
    """

    def __init__(self, model: BaseChatModel) -> None:
        self.model, self.name, self.key = model, name_of(model), key_of(model)

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
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits for retries after transient faults, and the waits before them.

    The wait is drawn from 0 to ``initial_interval`` seconds, and the upper end doubles with every
    attempt up to ``max_interval``, so that callers that failed together do not retry at the same
    moment. The wait that a server asks for (``Retry-After``) is added.

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
        if failed > self.max_retries or delay > longest or not fault_of(error).is_transient:
            return None
        ceiling = min(self.max_interval, self.initial_interval * 2.0 ** (failed - 1))
        return delay + random.uniform(0, ceiling)  # noqa: S311 -- spread, not secrecy

    async def repeat(
        self,
        make: Callable[[], Awaitable[T]],
        io: IO,
        longest: float,
        *,
        may_go_on: Callable[[], bool] = lambda: True,
    ) -> T:
        """Make a call, and make it again after transient faults.

        Args:
            make: Makes the call.
            io: How to wait, `BLOCKING` or `ASYNC`.
            longest: Longest wait, in seconds, that a server may ask for.
            may_go_on: Whether anything is left for another attempt.
        """
        failed = 0
        while True:
            try:
                return await make()
            except Exception as error:
                failed += 1
                wait = self.wait(error, failed, longest)
                if wait is None or not may_go_on():
                    raise
            await io.call(time.sleep, cast("Any", asyncio.sleep), wait)


class ChatClient(ModelClient):
    """A LangChain chat model with its cap policy and its retry policy.

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
        policy: caps.CapPolicy | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        self._policy = policy or caps.policy_for(model)
        self._retry_policy = retry_policy or RetryPolicy()
        self._own_caps = caps_in({name: getattr(model, name) for name in model.model_fields_set})
        limits = (getattr(model, name, None) for name in _TIMEOUTS)
        limits = (getattr(limit, "read", limit) for limit in limits)  # of an httpx.Timeout
        self._timeout = next((limit for limit in limits if isinstance(limit, int | float)), 0)
        fields, copy = type(model).model_fields, copy_for_calls(model)
        plain: dict[str, object] = {"disable_streaming": True}
        if "streaming" in fields:
            plain["streaming"] = False  # else the request asks for a stream, which nobody reads
        waits = "stream_chunk_timeout" in fields.keys() - model.model_fields_set
        patient = {"stream_chunk_timeout": None} if waits else {}  # models may think for minutes
        super().__init__(copy.model_copy(update=plain))
        self._streaming = copy.model_copy(update=patient)
        self._refuses_schema, self._bill = False, Bill(self.key)

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call, as `ModelClient.call` describes it."""
        if options.continue_last and not caps.can_continue(self.model, self._policy):
            raise ModelSetupError(_NO_CONTINUATION)
        enclosing = ACCOUNTS.get()
        own = enclosing[0].limit(tokens=options.cap) if enclosing else Budget(options.cap)
        accounts = (own, *enclosing[1:])  # `own` limits all attempts together
        options = replace(options, cap=min([options.cap, *self._own_caps]))
        lost: list[Charge] = []
        attempts = 0

        async def make() -> Reply:
            nonlocal attempts
            attempts += 1
            return await self._reply(messages, options, accounts, lost, io)

        repeat = partial(self._retry_policy.repeat, make, io, options.timeout)
        try:
            return await repeat(may_go_on=lambda: min(map(Budget.tokens_left, accounts)) >= 1)
        except BudgetUsedUpError as error:
            error.lost = tuple(lost)
            raise
        except PlanAndBudgetError:  # of the budget, such as a model without a price
            raise
        except Exception as error:  # noqa: BLE001 -- of the model, of which there are many kinds
            failure = to_model_call_error(error, self.model, tuple(lost), attempts)
            raise failure from failure.__cause__

    async def _reply(
        self,
        messages: Sequence[BaseMessage],
        options: CallOptions,
        accounts: Sequence[Budget],
        lost: list[Charge],
        io: IO,
    ) -> Reply:
        """Return the reply to one attempt. The charge of a failed attempt is added to `lost`."""
        call = self._bill  # without input where no budget counts it
        if any(account.needs_input for account in accounts):
            is_learned = all(account.is_learned for account in accounts)
            bound = partial(bound_input, is_learned=is_learned)
            call = await io.load(bound, self.model, messages, self._arguments(options))
        goes_on = options.continue_last and messages[-1].type == "ai"  # else nothing has begun
        effort: str | None = None

        async def send(reserved: Reservation, watch: BaseCallbackHandler) -> AIMessage:
            nonlocal effort
            capped = replace(options, cap=reserved.tokens, continue_last=goes_on)
            arguments = self._arguments(capped)
            effort = describe_effort(arguments, capped)
            return await self._send(messages, capped, arguments, watch, io)

        left = min(map(Budget.tokens_left, accounts))
        done = await attempt(send, accounts, options.cap, call, messages, io, wait_for=left)
        charge = _charge(done, options.purpose)
        if done.message is None or charge is None:
            lost += [charge] if charge else []
            raise cast("Exception", done.error)
        if call.input:
            sent = self._arguments(options)
            learn_input(self.model, messages, sent, done.tokens or call)
        output, cap = charge["usage"]["output_tokens"], charge["cap"]
        note = f"{self.name} ignored its cap of {cap} tokens and wrote {output}"
        ignored = ReportWarning(code="cap_ignored", message=note)
        message, text = done.message, done.message.text
        return Reply(
            text if options.continue_last else without_thinking(text),
            charge["finish"],
            charge,
            tuple(lost),
            warnings=(ignored,) if output > cap else (),
            tool_message=message_to_dict(message) if message.tool_calls else None,
            message_id=message.id,
            effort=effort,
            thought=thought_of(message)[-MAX_THOUGHT:],
        )

    async def _send(
        self,
        messages: Sequence[BaseMessage],
        options: CallOptions,
        arguments: dict[str, Any],
        watch: BaseCallbackHandler,
        io: IO,
    ) -> AIMessage:
        """Send one request, and send it again without what its server refuses to take."""
        model = self._model_for(options)
        serialized_of(model)  # else made anew for each copy
        own = model.callbacks
        handlers = own.handlers if isinstance(own, BaseCallbackManager) else own or ()
        model = model.model_copy(update={"callbacks": [*handlers, watch]})
        prompt = messages
        if options.continue_last:
            model, prompt, arguments = caps.continuing(model, messages, arguments, self._policy)
        # The model's own limit is that of one read, and a stream has many.
        limit = max(options.timeout, self._timeout) if options.stream else self._timeout
        given: Any = [*prompt], {} if options.stream else _SILENT
        blocking = partial(model.invoke, *given, **arguments)
        awaitable = partial(model.ainvoke, *given, **arguments)
        try:
            message = await io.within(limit or options.timeout, blocking, awaitable)
            begun = messages[-1].text if options.continue_last else ""
            return _without_beginning(message, begun) if begun else message
        except Exception as error:
            is_bare = False
            if other := caps.adapted(self._streaming, self._policy, options.cap, error):
                self._streaming, self._policy, cap = other
                options = replace(options, cap=cap)
            elif options.schema is None or self._refuses_schema or not refusal_of(error):
                raise
            else:
                is_bare, options = True, replace(options, schema=None)
        message = await self._send(messages, options, self._arguments(options), watch, io)
        self._refuses_schema |= is_bare
        return message

    def _arguments(self, options: CallOptions) -> dict[str, Any]:
        if self._refuses_schema:
            options = replace(options, schema=None)
        tools: Any = self.model.bind_tools(options.tools) if options.tools else None
        policy = self._policy(self._model_for(options), options)
        return {**(tools.kwargs if tools else {}), **policy}

    def _model_for(self, options: CallOptions) -> BaseChatModel:
        """Return the model for a call; for samples a copy that does not give a reply again."""
        model = self._streaming if options.stream else self.model
        if not options.sampling:
            return model
        change: dict[str, Any] = {"cache": False}
        if getattr(model, "temperature", None) == 0:
            change["temperature"] = _SAMPLING_TEMPERATURE
        return model.model_copy(update=change)


class FallbackClient(ModelClient):
    """A client that calls the next of its clients when a model fails for good."""

    def __init__(self, clients: Sequence[ModelClient]) -> None:
        super().__init__(clients[0].model)
        self._clients = clients

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call; all clients together have its cap.

        Raises:
            ModelCallError: If all clients fail.
        """
        failures: list[ModelCallError] = []
        lost: tuple[Charge, ...] = ()
        with use_budget(open_run(limit=options.cap)):
            for client in self._clients:
                try:
                    reply = await client.call(messages, options, io)
                    return replace(reply, lost=lost + reply.lost)
                except ModelCallError as failure:
                    failures.append(failure)
                    lost += failure.lost
                    if available_tokens(1) < 1:
                        break
        if len(failures) == 1:  # with its class, such as that of a budget that is used up
            raise failures[0]
        last = failures[-1]
        raise ModelCallError(" ".join(map(str, failures)), last.status, lost) from last


def _charge(done: Attempt, purpose: Purpose) -> Charge | None:
    """Return the entry of an attempt in the ledger; None for one that was refused."""
    if done.tokens is None:
        return None
    return Charge(
        node=purpose.node,
        step=purpose.step,
        cap=done.reserved.tokens,
        model=done.reserved.call.model,
        usage=done.tokens.usage(),
        measured=done.tokens.is_measured,
        most=(done.reserved.bill or done.tokens).usage(),
        seconds=round(done.seconds, 4),
        finish="error" if done.message is None else finish_of(done.message),
    )


def _without_beginning(message: AIMessage, begun: str) -> AIMessage:
    """Return what a call added to the message that it went on with.

    Some servers, such as llama.cpp, repeat the beginning, which this call did not write and which
    must not be counted; others strip its last spaces.
    """
    if not isinstance(message.content, str):
        return message
    is_whole = message.content.startswith(begun)
    added = message.content.removeprefix(begun if is_whole else begun.rstrip())
    return message.model_copy(update={"content": added})
