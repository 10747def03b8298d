"""Wait for the reply to one call; read its finish reason, and read or estimate its tokens."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass, field
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately

from pb_graph.answers import thinking_in
from pb_graph.budget.account import Budget
from pb_graph.budget.bill import MAX_TOKENS, Bill, Reservation, spent
from pb_graph.models.options import plain_field
from pb_graph.models.provider_errors import tokens_of_error
from pb_graph.types import Charge, Purpose, ReportWarning

MAX_THOUGHT = 24_000  # characters of a thought that are kept, from its end: some 6,000 tokens
P = ParamSpec("P")
T = TypeVar("T")

# Names and words as `plain_field` writes them. A stream's reasons are joined, so that a word may
# come several times: "STOPSTOP".
_REASONS = re.compile(r"(finish|stop|done|end|completion|termination)(reason|details)")
_INNER_REASONS = ("incomplete_details", "reason"), ("prompt_feedback", "block_reason")
_STATUSES = ("completed", "incomplete", "failed", "cancelled", "in_progress")  # of Responses
_COMPLETE = re.compile(
    r"(stop(sequence)?|endturn|eos(token)?|endoftext|completed?|finish|toolcalls?|tooluse"
    r"|functioncall)+"
)
_FILTERED = re.compile(
    r"(contentfilter(ed)?|(image)?(safety|recitation|prohibitedcontent)|refusal|blocklist|spii"
    r"|guardrailintervened|modelarmor|errortoxic|sensitive|blocked)+"
)
_OUTPUT = re.compile(r"(completion|output|generated|candidates)tokens?(count)?|evalcount")
_INPUT = re.compile(r"(prompt|input)tokens?(count)?|promptevalcount")
_TOKENS = "input_tokens", "output_tokens", "total_tokens"
_LASTING = "ephemeral_1h_input_tokens"
_WRITES = "cache_creation", "ephemeral_5m_input_tokens", _LASTING
_MAX_TOKEN = 12  # characters: no running text has longer ones on average
# Providers whose models always say why a reply ended, if it did.
_SAYING_WHY = {
    *("openai", "azure", "anthropic", "google_genai", "google_vertexai", "ollama", "deepseek"),
    *("amazon_bedrock", "mistral", "mistralai", "groq", "xai", "together", "fireworks", "cohere"),
    *("perplexity", "openrouter", "nvidia", "cerebras", "databricks", "ibm", "upstage", "ai21"),
}


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to one call."""

    text: str  # what is visible
    finish: str  # why the reply ended: `stop`, `length` or `filter`
    charge: Charge
    lost: tuple[Charge, ...] = ()  # of earlier attempts that failed but may have been billed
    warnings: tuple[ReportWarning, ...] = ()  # about the usage, and a cap that was ignored
    tool_message: dict[str, Any] | None = None  # whole, as JSON: some providers want all of it back
    message_id: str | None = field(default=None, compare=False)  # as it was streamed to a host
    effort: str | None = None  # the reasoning effort that was asked for, and why
    thought: str = ""  # the end of the visible thinking before the text

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Return the charges of all attempts, in order."""
        return (*self.lost, self.charge)

    @property
    def tokens(self) -> int:
        """Return the completion tokens of all attempts."""
        return spent(self.charges)

    def to_json(self) -> dict[str, Any]:
        """Return the reply as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Reply:
        """Return the reply that `to_json` wrote."""
        return cls(**{**plain, **{name: tuple(plain[name]) for name in ("lost", "warnings")}})


def _tokens_of(message: AIMessage, prompt: Sequence[BaseMessage], cap: int, model: str) -> Bill:
    """Return the tokens that a provider reported for a response, else an estimate of them."""
    usage: Any = message.usage_metadata or {}
    given = [_whole_tokens(usage.get(name)) for name in _TOKENS]
    inputs, output, total = [number or 0 for number in given]
    reasoning = _details_of(usage, "output_token_details").get("reasoning", 0)
    visible, thought = message.text, thought_of(message)
    # A gateway may leave reasoning out of the completion tokens: the total has it, or it is more
    # than a part can be.
    output = max(output, total - inputs)
    if reasoning > output or output - reasoning < len(visible) // _MAX_TOKEN:
        output += reasoning
    # Some servers report 0 or `true` for unknown usage, which LangChain reads as 1. A stream that
    # broke off may have reported that of its beginning, and a gateway no thought.
    text = visible if thought in visible else visible + thought  # all that was written and paid for
    for call in (*message.tool_calls, *message.invalid_tool_calls):
        text += json.dumps([call["name"], call["args"]], default=str)
    least, longest = len(text.split(maxsplit=1)), len(text) // _MAX_TOKEN
    is_short = None in given or output < longest
    if is_short and ((thought and not reasoning) or not _reason_of(message)):
        least = max(least, longest)
    if None in given or output < least:
        output, inputs = _estimate(message, text, cap, least)
        inputs = inputs or count_tokens_approximately(list(prompt))
        return Bill(model, input=inputs, output=output, is_measured=False)
    guessed = round(output * len(thought) / len(text)) if thought and not reasoning else 0
    details = _details_of(usage, "input_token_details")
    cached = min(details.get("cache_read", 0), inputs)
    lasting = min(details.get(_LASTING, 0), inputs - cached)
    written = min(sum([details.get(name, 0) for name in _WRITES]), inputs - cached)
    parts: Any = {"reasoning": reasoning or guessed, "guessed": guessed, "cached": cached}
    # No prompt is empty: the beginning of a stream, which tells its size, is lost in LangChain.
    parts |= {"written": written, "lasting": lasting, "is_measured": inputs > 0}
    inputs = inputs or count_tokens_approximately(list(prompt))
    return Bill(model, input=inputs, output=output, **parts)


class _StreamWatch(BaseCallbackHandler):
    """Hear the stream of a response: whether the response has begun, and the usages of chunks."""

    run_inline = True
    ignore_chat_model = True  # else LangChain writes the whole prompt as text for it

    def __init__(self) -> None:
        self.has_begun, self._usages = False, list[Any]()

    def on_llm_new_token(self, *_: object, chunk: object = None, **__: object) -> None:
        """Keep the usage of a chunk. A response that has begun is billed even if it breaks off."""
        self.has_begun = True
        if usage := getattr(getattr(chunk, "message", None), "usage_metadata", None):
            self._usages.append(usage)

    on_stream_event = on_llm_new_token  # of LangChain's version 3

    def mend(self, message: AIMessage, provider: str) -> None:
        """Correct what LangChain makes of a stream: added usages, and perhaps no end."""
        if len(given := self._usages) > 1:
            names = "input_tokens", "output_tokens"
            counts = [[_whole_tokens(each.get(name)) or 0 for each in given] for name in names]
            # Usages that fall are those of single chunks, as Gemini's, and their sum is right.
            if all(sorted(numbers) == numbers for numbers in counts):
                message.usage_metadata = given[-1]
        if provider in _SAYING_WHY:
            message.response_metadata.setdefault("model_provider", provider)


class Attempt(NamedTuple):
    """One attempt of a call, which is settled: what was reserved, and what came of it.

    A failed attempt has an error instead of a message, and no tokens unless it may be billed.
    """

    reserved: Reservation
    message: AIMessage | None
    error: Exception | None
    tokens: Bill | None
    seconds: float

    def charge(self, purpose: Purpose) -> Charge | None:
        """Return the entry of the attempt in the ledger; None for one that was refused."""
        if self.tokens is None:
            return None
        finish = "error" if self.message is None else finish_of(self.message)
        return Charge(
            node=purpose.node,
            step=purpose.step,
            cap=self.reserved.tokens,
            model=self.reserved.call.model,
            usage=self.tokens.usage(),
            measured=self.tokens.is_measured,
            most=(self.reserved.bill or self.tokens).usage(),
            seconds=round(self.seconds, 4),
            finish=finish,
        )


async def attempt(  # noqa: PLR0913, PLR0917 -- what to send, and what it may spend
    send: Callable[[Reservation, BaseCallbackHandler], Awaitable[AIMessage]],
    accounts: Sequence[Budget],
    cap: int | None,
    call: Bill,
    prompt: Sequence[BaseMessage],
    io: IO,
    **limits: Any,  # noqa: ANN401 -- those of `Budget.reserve`
) -> Attempt:
    """Reserve tokens, send one request within them, read the response and settle.

    Args:
        send: Sends the request, given its reservation and a handler that has to hear its stream.
        accounts: Accounts that the attempt reserves in, one of each tree.
        cap: Completion tokens that the attempt may cost; None for all that is left.
        call: The model and the bound of the input, where an account counts it.
        prompt: The messages that are sent.
        io: How to wait, `BLOCKING` or `ASYNC`.
        **limits: The other arguments of `Budget.reserve`, such as `at_least`.

    Raises:
        BudgetUsedUpError: If an account has too little left.
    """
    (own, *also), watch = accounts, _StreamWatch()
    reserved = await io.call(own.reserve, own.areserve, cap, call=call, also=also, **limits)
    message, failure, started = None, None, time.perf_counter()
    with reserved:
        try:
            message = await send(reserved, watch)
            watch.mend(message, call.model.partition(":")[0])
        except Exception as error:  # noqa: BLE001 -- of the model, of which there are many kinds
            begun = Bill(call.model, is_measured=False) if watch.has_begun else None
            failure, tokens = error, tokens_of_error(error) or begun
            if tokens is None:
                reserved.settle(0)
        else:
            tokens = _tokens_of(message, prompt, reserved.tokens, call.model)
        if tokens and (message is not None or tokens.is_measured):
            reserved.settle([tokens.most(call)])
    return Attempt(reserved, message, failure, tokens, time.perf_counter() - started)


def _whole_tokens(value: object) -> int | None:
    """Return a number of tokens; None for what is none, such as `true`, NaN, a fraction or text."""
    is_number = type(value) in (int, float) and 0 <= value < MAX_TOKENS  # type: ignore[operator]
    return int(value) if is_number and value == int(value) else None  # type: ignore[call-overload]


def _details_of(usage: Mapping[str, Any], name: str) -> dict[str, int]:
    """Return the details of a usage; those of a service tier have its name in front."""
    given = (usage.get(name) or {}).items()
    plain = {key.removeprefix("priority_").removeprefix("flex_"): number for key, number in given}
    return {key: _whole_tokens(number) or 0 for key, number in plain.items()}


def _estimate(message: AIMessage, text: str, cap: int, least: int) -> tuple[int, int]:
    """Return the output that the metadata names or the text lets expect, and the input or 0."""
    output, inputs = (_largest(message.response_metadata, names) for names in (_OUTPUT, _INPUT))
    if output < max(1, least):
        # Four characters a token, but fewer of other scripts.
        plain, others = sum(map(str.isascii, text)), len(text.encode(errors="replace")) - len(text)
        codes = sum(map(len, re.findall(r"[!-~]{25,}", text)))  # such as base64
        digits = sum(map(str.isdigit, text))
        output = math.ceil(plain / 4 + others / 2 + codes / 4 + digits / 12)
        # A reply that ended at its cap cost the cap, hidden thinking included. An estimate slightly
        # above the cap is wrong; far above it, the server ignored the cap.
        if output <= 2 * cap + 16:
            output = cap if finish_of(message) == "length" else min(output, cap)
    return output, inputs


def _largest(fields: Mapping[str, Any], names: re.Pattern[str]) -> int:
    """Return the largest number of tokens under one of some names, however deep; else 0."""
    found = [_largest(value, names) for value in fields.values() if isinstance(value, Mapping)]
    own = [value for name, value in fields.items() if names.fullmatch(plain_field(name))]
    return max([*found, *(_whole_tokens(value) or 0 for value in own)], default=0)


def finish_of(message: AIMessage) -> str:
    """Return why a response ended, in one vocabulary: ``stop``, ``length`` or ``filter``."""
    reason = _reason_of(message)
    if not reason:  # a stream that broke off, if the provider always gives a reason
        return "length" if "model_provider" in message.response_metadata else "stop"
    if _COMPLETE.fullmatch(reason):
        return "stop"
    return "filter" if _FILTERED.fullmatch(reason) else "length"  # also for unknown reasons


def _reason_of(message: AIMessage) -> str:
    meta = message.response_metadata
    reasons = [meta[name] for name in meta if _REASONS.fullmatch(plain_field(name))]
    reasons += [meta[name].get(key) for name, key in _INNER_REASONS if meta.get(name)]
    ending = next(filter(None, reasons), None)
    if ending is None:
        return plain_field(meta["status"]) if meta.get("status") in _STATUSES else ""
    if isinstance(ending, Mapping):
        ending = ending.get("reason") or ending.get("type")
    # A member of an enumeration has the name of that before it.
    return plain_field(str(ending).strip().rpartition(".")[2])


def thought_of(message: AIMessage) -> str:
    """Return the visible thought of a response: a field of the message, or a part of its text."""
    extra, text = message.additional_kwargs, message.content
    thoughts: list[Any] = [extra.get("reasoning_content"), extra.get("reasoning")]
    if not isinstance(text, str):
        blocks = [block for block in message.content_blocks if block["type"] == "reasoning"]
        thoughts.append("\n".join(str(block.get("reasoning") or "") for block in blocks))
        text = str(message.text)
    if "<" in text or "[" in text or "◁" in text:
        thoughts.append(thinking_in(text))
    return next((each for each in thoughts if each and isinstance(each, str)), "")


@dataclass(frozen=True, slots=True)
class IO:
    """The way in which a run waits for models, tools, checkpointers and budgets.

    Code above these leaves is written once, as coroutines. With `BLOCKING` all that they await
    blocks, so that `run_sync` drives them to their end without an event loop.
    """

    is_async: bool

    async def call(
        self,
        blocking: Callable[P, T],
        awaitable: Callable[P, Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call one of two equivalent functions, such as ``model.invoke`` and ``model.ainvoke``."""
        return await awaitable(*args, **kwargs) if self.is_async else blocking(*args, **kwargs)

    async def within(
        self, seconds: float, blocking: Callable[[], T], awaitable: Callable[[], Awaitable[T]]
    ) -> T:
        """Call one of two functions; raise TimeoutError after so many seconds.

        A blocking call waits for a thread, because the limit of HTTP clients is that of one read.
        """
        if self.is_async:
            async with asyncio.timeout(seconds):
                return await awaitable()
        done: Future[T] = Future()
        calls = _idle_thread()

        def work() -> None:
            try:
                outcome = partial(done.set_result, blocking())
            except BaseException as error:  # noqa: BLE001 -- raised by `result`
                outcome = partial(done.set_exception, error)
            _IDLE.append(calls)
            outcome()

        calls.put(partial(copy_context().run, work))
        return done.result(seconds)  # when the time is up, the thread is left alone

    async def load(self, function: Callable[..., T], *args: object) -> T:
        """Call a slow function with its arguments; in an event loop, in a thread."""
        return await asyncio.to_thread(function, *args) if self.is_async else function(*args)


_IDLE: list[SimpleQueue[Callable[[], None]]] = []  # the queues of threads that wait for a call
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_IDLE.clear)  # a fork has none of the threads


def _idle_thread() -> SimpleQueue[Callable[[], None]]:
    """Return the queue of a thread that waits for a call, as it takes long to start one."""
    # The threads of an executor would be waited for at exit, with a call that hangs.
    with suppress(IndexError):
        return _IDLE.pop()
    calls: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def work() -> None:
        while True:
            calls.get()()

    Thread(target=work, daemon=True).start()
    return calls


BLOCKING, ASYNC = IO(is_async=False), IO(is_async=True)


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits by `BLOCKING`, so that it needs no event loop."""
    try:
        work.send(None)
    except StopIteration as stop:
        return cast("T", stop.value)
    work.close()
    msg = "A node or method awaited something that needs an event loop in a synchronous run. Await "
    raise RuntimeError(msg + "only methods of `run`, or run the graph with ainvoke or astream.")
