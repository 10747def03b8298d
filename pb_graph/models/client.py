"""Call a chat model within a cap. All tokens are spent here."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, message_to_dict
from langchain_core.runnables.config import RunnableConfig, ensure_config

from pb_graph.answers import without_thinking
from pb_graph.budget.account import ACCOUNTS, Budget, available_tokens, open_run, use_budget
from pb_graph.budget.bill import Bill, Reservation, plain_name
from pb_graph.errors import BudgetUsedUpError, ModelCallError, ModelSetupError, PlanAndBudgetError
from pb_graph.models import caps
from pb_graph.models.classes import find_class
from pb_graph.models.input_bound import bound_input, learn_input
from pb_graph.models.options import CallOptions, caps_in, copy_for_calls, describe_effort, key_of
from pb_graph.models.provider_errors import fault_of, refusal_of, retry_after, to_model_call_error
from pb_graph.models.reply import IO, MAX_THOUGHT, Reply, attempt, thought_of
from pb_graph.types import Charge, ReportWarning

T = TypeVar("T")
_Make = Callable[[], Awaitable[T]]


class ModelClient:
    """A model that can be called within a cap. `models` also has its fallbacks."""

    def __init__(self, model: BaseChatModel, *fallbacks: BaseChatModel) -> None:
        self.model, self.models, self.key = model, (model, *fallbacks), key_of(model)
        self.name = plain_name(self.key)
        self.classes = {key_of(each): find_class(each) for each in self.models}

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call, with retries; the cap limits all attempts together.

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
    """Limits for retries after transient faults; what a server asks to wait is added."""

    max_retries: int = 3  # attempts after the first one
    initial_interval: float = 0.5  # upper end of the first wait, in seconds; doubles each time
    max_interval: float = 8.0  # upper end of any wait, in seconds

    async def repeat(
        self, make: _Make[T], io: IO, longest: float, accounts: Sequence[Budget] = ()
    ) -> T:
        """Make a call, and make it again after transient faults.

        Args:
            make: Makes the call.
            io: How to wait, `BLOCKING` or `ASYNC`.
            longest: Longest wait, in seconds, that a server may ask for.
            accounts: Accounts that must have something left for another attempt.
        """
        failed = 0
        while True:
            try:
                return await make()
            except Exception as error:
                failed, wait = failed + 1, retry_after(error)
                # A server that asks for a longer wait would refuse an earlier attempt.
                is_last = failed > self.max_retries or wait > longest
                is_last |= any(account.tokens_left() < 1 for account in accounts)
                if is_last or not fault_of(error).is_transient:
                    raise
            ceiling = min(self.max_interval, self.initial_interval * 2.0 ** (failed - 1))
            wait += random.uniform(0, ceiling)  # noqa: S311 -- so that callers retry apart
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
        names = ("timeout", "request_timeout", "default_request_timeout")
        limits = (getattr(model, name, None) for name in names)
        limits = (getattr(limit, "read", limit) for limit in limits)  # of an httpx.Timeout
        self._timeout = next((limit for limit in limits if isinstance(limit, int | float)), 0)
        fields, copy = type(model).model_fields, copy_for_calls(model)
        whole = {"streaming": False} if "streaming" in fields else {}  # nobody would read a stream
        waits = "stream_chunk_timeout" in fields.keys() - model.model_fields_set
        patient = {"stream_chunk_timeout": None} if waits else {}  # models may think for minutes
        super().__init__(copy.model_copy(update={"disable_streaming": True, **whole}))
        self._streaming, self._refuses_schema = copy.model_copy(update=patient), False
        self._bill = Bill(self.key)

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call, as `ModelClient.call` describes it."""
        if options.continue_last and not caps.can_continue(self.model, self._policy):
            msg = "This method continues unfinished replies, which this model's server is not "
            msg += 'known to do. Use a local model, or name the server: cap_policy="vllm" or '
            raise ModelSetupError(msg + '"llama_cpp".')
        enclosing = ACCOUNTS.get()
        own = enclosing[0].limit(tokens=options.cap) if enclosing else Budget(options.cap)
        accounts = [own, *enclosing[1:]]  # `own` limits all attempts together
        if (cap := min([options.cap, *self._own_caps])) < options.cap:
            options = options._replace(cap=cap)
        send = partial(self._send, messages, options, io)
        failed: list[Charge | None] = []

        async def make() -> Reply:
            call = self._bill  # without input where no budget counts it
            if any(account.needs_input for account in accounts):
                is_learned = all(account.is_learned for account in accounts)
                bound = partial(bound_input, is_learned=is_learned)
                call = await io.load(bound, self.model, messages, self._arguments(options))
            done = await attempt(send, accounts, cap, call, messages, io, wait_for=cap)
            charge = done.charge(options.purpose)
            if done.message is None or charge is None:
                failed.append(charge)
                raise cast("Exception", done.error)
            if call.input:
                learn_input(self.model, messages, self._arguments(options), done.tokens or call)
            return self._read(done.message, charge, options)

        try:
            reply = await self._retry_policy.repeat(make, io, options.timeout, accounts)
        except Exception as error:
            lost = tuple(filter(None, failed))
            if isinstance(error, BudgetUsedUpError):
                error.lost = lost
            if isinstance(error, PlanAndBudgetError):  # such as a model without a price
                raise
            failure = to_model_call_error(error, self.model, lost, len(failed))
            raise failure from failure.__cause__
        return replace(reply, lost=tuple(filter(None, failed))) if failed else reply

    def _read(self, message: AIMessage, charge: Charge, options: CallOptions) -> Reply:
        text, output, cap = str(message.text), charge["usage"]["output_tokens"], charge["cap"]
        note = f"{self.name} ignored its cap of {cap} tokens and wrote {output}"
        sent = options._replace(cap=cap)
        return Reply(
            text if options.continue_last else without_thinking(text),
            charge["finish"],
            charge,
            warnings=(ReportWarning(code="cap_ignored", message=note),) if output > cap else (),
            tool_message=message_to_dict(message) if message.tool_calls else None,
            message_id=message.id,
            effort=describe_effort(self._arguments(sent), sent),
            thought=thought_of(message)[-MAX_THOUGHT:],
        )

    async def _send(
        self,
        messages: Sequence[BaseMessage],
        options: CallOptions,
        io: IO,
        reserved: Reservation,
        watch: BaseCallbackHandler,
    ) -> AIMessage:
        """Send one request, and send it again without what its server refuses to take."""
        goes_on = options.continue_last and messages[-1].type == "ai"  # else nothing has begun
        options, is_bare = options._replace(cap=reserved.tokens, continue_last=goes_on), False
        # The model's own limit is that of one read, and a stream has many.
        limit = max(options.timeout, self._timeout) if options.stream else self._timeout
        around, config = ensure_config(), RunnableConfig()  # those of the node are added to it
        if not options.stream:
            config["tags"] = [*around["tags"], "nostream"]  # for LangGraph
        handlers = around["callbacks"] or []
        if isinstance(handlers, list):
            config["callbacks"] = [*handlers, watch]
        else:  # a manager
            config["callbacks"] = handlers = handlers.copy()
            handlers.add_handler(watch)
        while True:
            model, prompt, arguments = self._model_for(options), messages, self._arguments(options)
            if goes_on:
                model, prompt, arguments = caps.continuing(model, prompt, arguments, self._policy)
            blocking = partial(model.invoke, [*prompt], config, **arguments)
            awaitable = partial(model.ainvoke, [*prompt], config, **arguments)
            try:
                message = await io.within(limit or options.timeout, blocking, awaitable)
                break
            except Exception as error:
                if other := caps.adapted(self._streaming, self._policy, options.cap, error):
                    self._streaming, self._policy, cap = other
                    options = options._replace(cap=cap)
                elif options.schema is None or self._refuses_schema or not refusal_of(error):
                    raise
                else:
                    options, is_bare = options._replace(schema=None), True
        self._refuses_schema |= is_bare
        if not goes_on or not isinstance(text := message.content, str):
            return message
        begun = messages[-1].text  # some servers repeat it, without its last spaces if at all
        added = text.removeprefix(begun if text.startswith(begun) else begun.rstrip())
        return message.model_copy(update={"content": added})

    def _arguments(self, options: CallOptions) -> dict[str, Any]:
        if self._refuses_schema:
            options = options._replace(schema=None)
        arguments = self._policy(self._model_for(options), options)
        bound: Any = self.model.bind_tools(options.tools) if options.tools else None
        return {**bound.kwargs, **arguments} if bound else arguments

    def _model_for(self, options: CallOptions) -> BaseChatModel:
        """Return the model for a call; for samples a copy that does not give a reply again."""
        model = self._streaming if options.stream else self.model
        if not options.sampling:
            return model
        warm = {"temperature": 0.7} if getattr(model, "temperature", None) == 0 else {}
        return model.model_copy(update={"cache": False, **warm})


class FallbackClient(ModelClient):
    """A client that calls the next of its clients when a model fails for good."""

    def __init__(self, clients: Sequence[ModelClient]) -> None:
        super().__init__(*(model for client in clients for model in client.models))
        self._clients = clients

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call; all clients together have its cap."""
        failures, lost = list[ModelCallError](), tuple[Charge, ...]()
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
