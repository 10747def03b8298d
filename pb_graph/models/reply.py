"""Wait for the reply to one call, and read its finish reason and its tokens.

Tokens are measured where the provider reports them, else estimated from the text.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from threading import Thread
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import LLMResult

from pb_graph.answers import thinking_in
from pb_graph.budget.account import Budget, Reservation
from pb_graph.budget.bill import Bill, spent
from pb_graph.budget.rates import MAX_TOKENS
from pb_graph.models.provider_errors import may_be_billed
from pb_graph.types import Charge, ReportWarning

MAX_THOUGHT = 24_000
"""Characters of a thought that are kept, from its end: some 6,000 tokens."""

P = ParamSpec("P")
T = TypeVar("T")

_REASONS = (
    *("finish_reason", "stop_reason", "done_reason", "stopReason", "finishReason"),
    *("completionReason", "completion_reason"),
)
# A stream's reasons are joined, so that a word may come several times: "STOPSTOP".
_COMPLETE = re.compile(
    r"(stop([_-]?sequence)?|end[_-]?turn|eos([_-]?token)?|endoftext|completed?|finish|tool[_-]?calls?"
    r"|tool[_-]?use|function[_-]?call)+"
)
_FILTERED = re.compile(
    r"(content[_-]?filter(ed)?|(image_)?safety|refusal|blocklist|(image_)?recitation|spii"
    r"|(image_)?prohibited_content|guardrail_intervened|model_armor|error_toxic)+"
)

_WRITES, _LASTING = ("cache_creation", "ephemeral_5m_input_tokens"), "ephemeral_1h_input_tokens"
_RAW_OUTPUT = ("completion_tokens", "output_tokens", "outputTokens", "eval_count")
_RAW_INPUT = ("prompt_tokens", "input_tokens", "inputTokens", "prompt_eval_count")
# Providers whose models always say why a reply ended, if it did.
_SAYING_WHY = {
    *("openai", "azure", "anthropic", "google_genai", "google_vertexai", "ollama", "deepseek"),
    *("amazon_bedrock", "mistral", "groq", "xai", "together", "fireworks", "cohere", "perplexity"),
}
_MAX_TOKEN = 12  # characters: no running text has longer ones on average


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to one call.

    Attributes:
        text: The visible text.
        finish: Why the reply ended: ``stop``, ``length`` or ``filter``.
        charge: The charge of the call.
        lost: Charges of earlier attempts that failed but may have been billed.
        warnings: Warnings about the reported usage, and about a cap that the server ignored.
        tool_message: The whole message as JSON, if it calls tools: some providers want all of it
            back.
        message_id: The id under which the message was streamed to a host.
        effort: The reasoning effort that was asked for, and why; None if none was.
        thought: The end of the visible thinking before the text.
    """

    text: str
    finish: str
    charge: Charge
    lost: tuple[Charge, ...] = ()
    warnings: tuple[ReportWarning, ...] = ()
    tool_message: dict[str, Any] | None = None
    message_id: str | None = field(default=None, compare=False)
    effort: str | None = None
    thought: str = ""

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
        parts = {name: tuple(plain[name]) for name in ("lost", "warnings")}
        return cls(**{**plain, **parts})


def tokens_of(message: AIMessage, prompt: Sequence[BaseMessage], cap: int) -> Bill:
    """Return the tokens that a provider reported, else an estimate from the text, without a model.

    Reasoning that a gateway left out of the completion tokens is found in the total, or because
    there is more of it than a part can be.

    Args:
        message: The response.
        prompt: The messages that it answers.
        cap: The cap of the call.
    """
    usage: Any = message.usage_metadata or {}
    given = [_whole(usage.get(name)) for name in ("input_tokens", "output_tokens", "total_tokens")]
    inputs, output, total = (number or 0 for number in given)
    seen = len(message.text) // _MAX_TOKEN
    reasoning = _numbers_of(usage, "output_token_details").get("reasoning", 0)
    output = max(output, total - inputs)
    if reasoning > output or output - reasoning < seen:
        output += reasoning
    # Some servers report 0 or `true` for unknown usage, which LangChain reads as 1. A stream that
    # broke off may have reported that of its beginning.
    least = min(2, len(_written_text(message).split()))
    if None in given or output < (least if _reason_of(message) else max(seen, least)):
        return _estimate(message, prompt, cap)
    guessed = 0
    if not reasoning and (thought := thought_of(message)):
        guessed = reasoning = round(output * len(thought) / max(1, len(_written_text(message))))
    details = _numbers_of(usage, "input_token_details")
    cached = min(details.get("cache_read", 0), inputs)
    lasting = min(details.get(_LASTING, 0), inputs - cached)
    written = min(sum(details.get(name, 0) for name in _WRITES) + lasting, inputs - cached)
    return Bill(
        input=inputs,
        output=output,
        reasoning=reasoning,
        guessed=guessed,
        cached=cached,
        written=written,
        lasting=lasting,
    )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a call, which is settled.

    Attributes:
        cap: Completion tokens that were reserved.
        call: The model and the bound of the input, where an account counts it.
        message: The response; None if the attempt failed.
        error: Why the attempt failed.
        tokens: The tokens of the response, or of a failed attempt that may be billed; else None.
        most: The most that the attempt is billed, as the accounts count it.
        seconds: Seconds between the request and the response.
    """

    cap: int
    call: Bill
    message: AIMessage | None
    error: Exception | None
    tokens: Bill | None
    most: Bill
    seconds: float


async def attempt(  # noqa: PLR0913, PLR0917 -- what to send, and what it may spend
    send: Callable[[Reservation], Awaitable[AIMessage]],
    accounts: Sequence[Budget],
    cap: int | None,
    call: Bill,
    prompt: Sequence[BaseMessage],
    watch: StreamWatch,
    io: IO,
    *,
    keep: float = 0,
    at_least: int = 1,
    wait_for: int = 0,
) -> Attempt:
    """Reserve tokens, send one request within them, read the response and settle.

    Args:
        send: Sends the request; the cap is that of the reservation.
        accounts: Accounts that the attempt reserves in, one of each tree.
        cap: Completion tokens that the attempt may cost; None for all that is left.
        call: The model and the bound of the input, where an account counts it.
        prompt: The messages that are sent.
        watch: Hears the stream of the response, if there is one.
        io: How to wait, `BLOCKING` or `ASYNC`.
        keep: Amount that the first account keeps for a later call, in its unit.
        at_least: Fewest completion tokens that are worth the attempt.
        wait_for: Completion tokens worth waiting for while other calls may return some.

    Raises:
        BudgetUsedUpError: If an account has too little left.
    """
    own, *also = accounts
    reserved = await io.call(
        own.reserve,
        own.areserve,
        cap,
        keep=keep,
        at_least=at_least,
        wait_for=wait_for,
        call=call,
        also=also,
    )
    message, failure, started = None, None, time.perf_counter()
    with reserved:
        try:
            message = await send(reserved)
        except Exception as error:  # noqa: BLE001 -- of the model, of which there are many kinds
            failure, tokens = error, tokens_of_error(error)
            if tokens is None and watch.has_begun:
                tokens = Bill(call.model, is_measured=False)
            if tokens is None:
                reserved.settle(0)
        else:
            tokens = tokens_of(message, prompt, reserved.tokens)
        if tokens and (message is not None or tokens.is_measured):
            reserved.settle([tokens.most(call)])
    seconds, most = time.perf_counter() - started, reserved.bill or call
    return Attempt(reserved.tokens, call, message, failure, tokens, most, seconds)


def tokens_of_error(error: Exception) -> Bill | None:
    """Return the tokens that a failed attempt cost.

    OpenAI's client raises if a reply under ``response_format`` was cut off. The error carries the
    reply, which was paid for.

    Returns:
        The measured tokens; 0 that are not measured if the attempt may have been billed by any
        amount up to its cap. None if it was refused or never sent.
    """
    usage: Any = getattr(getattr(error, "completion", None), "usage", None)
    if usage and None not in (
        given := (_whole(usage.prompt_tokens), _whole(usage.completion_tokens))
    ):
        return Bill(input=given[0] or 0, output=given[1] or 0)
    return Bill(is_measured=False) if usage or may_be_billed(error) else None


def _whole(value: object) -> int | None:
    """Return a number of tokens; None for what is none, such as `true`, NaN, a fraction or text."""
    is_number = type(value) in (int, float) and 0 <= value < MAX_TOKENS  # type: ignore[operator]
    return int(value) if is_number and value == int(value) else None  # type: ignore[call-overload]


def _numbers_of(usage: Mapping[str, Any], name: str) -> dict[str, int]:
    """Return the details of a usage; those of a service tier have its name in front."""
    details = (usage.get(name) or {}).items()
    return {re.sub("^(priority|flex)_", "", key): _whole(value) or 0 for key, value in details}


def _estimate(message: AIMessage, prompt: Sequence[BaseMessage], cap: int) -> Bill:
    """Return the tokens that the metadata names, else an estimate from the characters of the text.

    Exact tokenizers would have to be downloaded. Any text costs at least one token. A reply that
    ended at its cap cost the cap, hidden thinking included. An estimate slightly above the cap is
    wrong; far above it, the server ignored the cap.
    """
    meta = message.response_metadata
    raw = {**meta, **(meta.get("usage") or {}), **(meta.get("token_usage") or {})}
    if message.usage_metadata:
        raw = {}  # what is wrong there is wrong here
    known, sent = (
        next(filter(None, (_whole(raw.get(name)) for name in names)), None)
        for names in (_RAW_OUTPUT, _RAW_INPUT)
    )
    output = known or _count(_written_text(message))
    if not known and output <= 2 * cap + 16:
        output = cap if finish_of(message) == "length" else min(output, cap)
    inputs = sent or count_tokens_approximately(list(prompt))
    return Bill(input=inputs, output=output, is_measured=False)


def _count(text: str) -> int:
    """Estimate the tokens of a text: four characters each, but fewer of other scripts and codes."""
    plain = sum(map(str.isascii, text))
    bytes_more = len(text.encode(errors="replace")) - len(text)  # 1 to 3 of each other character
    codes = sum(map(len, re.findall(r"[!-~]{25,}", text)))  # such as base64
    return math.ceil(plain / 4 + bytes_more / 2 + codes / 4 + sum(map(str.isdigit, text)) / 12)


def finish_of(message: AIMessage) -> str:
    """Return why a response ended, in one vocabulary: ``stop``, ``length`` or ``filter``.

    Only reasons that are known to end a complete reply count as ``stop``. Any other reason is
    ``length``, and so is none from a provider that always gives one, as in a stream that broke off.
    """
    reason = _reason_of(message)
    if not reason:
        return "length" if "model_provider" in message.response_metadata else "stop"
    if _COMPLETE.fullmatch(reason):
        return "stop"
    return "filter" if _FILTERED.fullmatch(reason) else "length"


def _reason_of(message: AIMessage) -> str:
    meta = message.response_metadata
    reasons = [meta.get(name) for name in _REASONS]
    reasons += [(meta.get("incomplete_details") or {}).get("reason"), meta.get("status")]
    ending = next(filter(None, reasons), "")
    return str(ending.get("reason") if isinstance(ending, Mapping) else ending).lower()  # AI21's


class StreamWatch(BaseCallbackHandler):
    """Mend what LangChain makes of streams: it adds up all usages, and an end may be missing.

    Args:
        provider: LangChain's name of the model's provider, where no run of the model begins.
    """

    run_inline = True

    def __init__(self, provider: str = "") -> None:
        self._provider = provider
        self._usages: dict[UUID, list[UsageMetadata]] = {}
        self.has_begun = False

    def on_stream_event(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 -- version 3
        """Note that the reply has begun, so that it is billed even if it breaks off."""
        self.has_begun = True

    def on_llm_new_token(self, *_: Any, chunk: Any = None, run_id: UUID, **__: Any) -> None:  # noqa: ANN401
        """Keep the usage of a chunk."""
        self.has_begun = True
        if usage := getattr(getattr(chunk, "message", None), "usage_metadata", None):
            self._usages.setdefault(run_id, []).append(usage)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:  # noqa: ANN401
        """Correct the reply of a run that has ended."""
        usages = self._usages.pop(run_id, [])
        for message in replies_in(response):
            self.mend(message, usages)

    def mend(self, message: AIMessage, usages: Sequence[UsageMetadata]) -> None:
        """Take the last usage of a stream whose usages never fall, and name the provider.

        Usages that fall are those of single chunks, as Gemini's, and their sum is right.
        """
        counts = [[usage[name] for usage in usages] for name in ("input_tokens", "output_tokens")]
        if len(usages) > 1 and all(sorted(numbers) == numbers for numbers in counts):
            message.usage_metadata = usages[-1]
        if self._provider in _SAYING_WHY:
            message.response_metadata.setdefault("model_provider", self._provider)


def replies_in(response: LLMResult) -> list[AIMessage]:
    """Return the messages of a result."""
    made = (getattr(each, "message", None) for each in chain.from_iterable(response.generations))
    return [message for message in made if isinstance(message, AIMessage)]


_CLOSING = ("</", "[/", "◁/", "<|")  # how the end of a thought may begin


def thought_of(message: AIMessage) -> str:
    """Return the visible thought of a response: a field of the message, or a part of its text."""
    thought = message.additional_kwargs.get("reasoning_content")
    if not isinstance(message.content, str):
        blocks = [block for block in message.content_blocks if block["type"] == "reasoning"]
        thought = thought or "\n".join(str(block.get("reasoning") or "") for block in blocks)
    if thought and isinstance(thought, str):
        return thought
    text = str(message.text)
    has_marks = text.lstrip().startswith(("<", "[", "◁")) or any(m in text for m in _CLOSING)
    return thinking_in(text) if has_marks else ""


def _written_text(message: AIMessage) -> str:
    """Return everything that a model wrote: thinking and tool calls were paid for, too."""
    thought = message.additional_kwargs.get("reasoning_content")
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    texts = [json.dumps([call["name"], call["args"]], default=str) for call in calls]
    return "".join([message.text, thought if isinstance(thought, str) else "", *texts])


@dataclass(frozen=True, slots=True)
class IO:
    """The way in which a run waits for models, tools, checkpointers and budgets.

    The code above its leaves is written once, as coroutines. With `BLOCKING` everything that a
    coroutine awaits blocks, so that `run_sync` drives it to its end without an event loop; with
    `ASYNC` it awaits.
    """

    is_async: bool

    async def call(
        self,
        blocking: Callable[P, T],
        awaitable: Callable[P, Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call one of two equivalent functions: the blocking one in a synchronous run.

        Args:
            blocking: Called in a synchronous run, such as ``model.invoke``.
            awaitable: Called and awaited in an event loop, such as ``model.ainvoke``.
            *args: Arguments of either.
            **kwargs: Keyword arguments of either.
        """
        if self.is_async:
            return await awaitable(*args, **kwargs)
        return blocking(*args, **kwargs)

    async def within(
        self,
        seconds: float | None,
        blocking: Callable[P, T],
        awaitable: Callable[P, Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call one of two functions as `call` does; raise TimeoutError after so many seconds.

        The limit of HTTP clients is that of one read, so a server may keep them waiting for ever. A
        blocking call therefore waits for a thread, which is left alone when the time is up.
        """
        if self.is_async or seconds is None:
            async with asyncio.timeout(seconds) if self.is_async else nullcontext():
                return await self.call(blocking, awaitable, *args, **kwargs)
        done: Future[T] = Future()

        def work() -> None:
            try:
                done.set_result(blocking(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 -- raised by `result`
                done.set_exception(error)

        Thread(target=copy_context().run, args=(work,), daemon=True).start()
        return done.result(seconds)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep
        await self.call(time.sleep, pause, seconds)

    async def load(self, function: Callable[..., T], *args: object) -> T:
        """Call a slow function; in an event loop, in a thread.

        Args:
            function: The function.
            *args: Its arguments.
        """
        return await self.call(function, partial(asyncio.to_thread, function), *args)


BLOCKING, ASYNC = IO(is_async=False), IO(is_async=True)


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits by `BLOCKING`, and return its result.

    Raises:
        RuntimeError: If the coroutine awaits something that needs an event loop.
    """
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    work.close()
    msg = "A node or method awaited something that needs an event loop in a synchronous run. "
    msg += "Await only the methods of `run`, or run the graph with ainvoke or astream."
    raise RuntimeError(msg)
