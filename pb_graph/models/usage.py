"""The tokens of one response: measured where the provider reports them, else estimated."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeGuard

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.utils import count_tokens_approximately

LENGTH_REASONS = frozenset(
    {
        *("length", "max_tokens", "max_output_tokens", "model_length"),
        "model_context_window_exceeded",
        # The server broke it off: a router's and vLLM's words, SGLang's, DeepSeek's.
        *("error", "abort", "insufficient_system_resource"),
    }
)
FILTER_REASONS = frozenset(
    {
        *("content_filter", "safety", "refusal", "blocklist", "recitation", "prohibited_content"),
        *("spii", "guardrail_intervened", "content_filtered"),  # the latter are Bedrock's
    }
)

LONGEST_TOKEN = 100
"""Characters that no tokenizer's tokens have on average."""
_NO_CALL_HAS = 10_000_000
"""Tokens that no single call can have, of prompt or completion."""

_CLOSED_THINKING = re.compile(r"^.*</think>", re.DOTALL)
_OPEN_THINKING = re.compile(r"<think>.*\Z", re.DOTALL)


class Tokens(NamedTuple):
    """Tokens of one call. ``output`` includes ``reasoning``, ``input`` includes ``cached``."""

    input: int
    output: int
    reasoning: int
    cached: int
    measured: bool


def tokens_of(message: AIMessage, prompt: Sequence[BaseMessage], cap: int | None = None) -> Tokens:
    """Read the tokens a provider reported with ``message``, or estimate them from the text."""
    found = read_usage(message, cap)
    return found if isinstance(found, Tokens) else estimate(message, prompt)


def read_usage(message: AIMessage, cap: int | None = None) -> Tokens | str:
    """The tokens that a provider reported, if they can be.

    Reasoning that a gateway left out of the completion tokens is found in the total, or in the
    details. More than the cap is believed if the text can have cost it: a token is a byte or more;
    and fewer than the text must have cost is not.

    Returns:
        The tokens; else what is wrong with the report, or '' if there is none.
    """
    usage = message.usage_metadata
    if usage is None:
        return ""
    given, written = usage.get("input_tokens"), usage.get("output_tokens")
    if not (_is_count(given) and _is_count(written)):
        return f"the server reported {given!r:.40} prompt and {written!r:.40} completion tokens"
    reasoning = _detail(usage.get("output_token_details"), "reasoning")
    cached = _detail(usage.get("input_token_details"), "cache_read")
    written = max(written + _left_out(usage), reasoning)
    text = _written_text(message)
    if not written and (text or finish_of(message) == "length"):
        return ""  # some say 0 for 'not known'
    if written * LONGEST_TOKEN < len(text):
        return f"the server reported {written} completion tokens for {len(text)} characters"
    if cap is not None and cap < written - reasoning > len(text.encode(errors="replace")):
        return f"the server reported {written} completion tokens, of {cap} that were asked for"
    return Tokens(given, written, min(reasoning, written), min(cached, given), measured=True)


def estimate(message: AIMessage, prompt: Sequence[BaseMessage]) -> Tokens:
    """Estimate the tokens of a response from its text.

    By its characters, because exact tokenizers would have to be downloaded. A paid answer never
    counts as nothing: text that is there costs at least one token.
    """
    text = _written_text(message)
    overhead = count_tokens_approximately([AIMessage("")])
    output = count_tokens_approximately([AIMessage(text)]) - overhead
    least = 1 if text else 0
    return Tokens(count_tokens_approximately(list(prompt)), max(least, output), 0, 0, False)


def _is_count(number: object) -> TypeGuard[int]:
    return type(number) is int and 0 <= number < _NO_CALL_HAS


def _detail(details: object, name: str) -> int:
    found = details.get(name) if isinstance(details, dict) else None
    return int(found) if _is_count(found) else 0


def _left_out(usage: UsageMetadata) -> int:
    """Tokens in the total but in neither part: reasoning, unless it is what was cached."""
    total = usage.get("total_tokens")
    if not _is_count(total):
        return 0
    missing = total - usage["input_tokens"] - usage["output_tokens"]
    details = usage.get("input_token_details")
    cached = (_detail(details, "cache_read"), _detail(details, "cache_creation"))
    return 0 if missing in (*cached, sum(cached)) else max(0, missing)


def _written_text(message: AIMessage) -> str:
    """Everything that a model wrote: thinking and calls of tools were paid for, too."""
    thought = message.additional_kwargs.get("reasoning_content")
    made = [*message.tool_calls, *message.invalid_tool_calls]
    called = [json.dumps([call["name"], call["args"]], default=str) for call in made]
    return "".join([message.text, thought if isinstance(thought, str) else "", *called])


def reported(error: Exception) -> Tokens | None:
    """The tokens that came back with a reply that its client refused to hand over.

    OpenAI's client raises when a reply under its own ``response_format`` was cut off; the exception
    carries the completion. LangChain's raises where a completion lacks what it reads.

    Returns:
        The tokens, or none, and not measured, for a reply that does not tell; None without a reply,
        or for one that is a refusal, as routers send under the status 200.
    """
    reply = getattr(error, "completion", None) or _reply_in(error.__traceback__)
    if reply is None:
        return None
    usage = reply.usage
    prompt, written = (getattr(usage, f"{kind}_tokens", None) for kind in ("prompt", "completion"))
    if not _is_count(prompt) or not _is_count(written):
        refused = getattr(reply, "error", None)
        return None if refused else Tokens(0, 0, 0, 0, measured=False)
    return Tokens(int(prompt), int(written), 0, 0, measured=True)


def _reply_in(trace: TracebackType | None) -> Any:  # noqa: ANN401 -- of OpenAI's package
    """The completion that LangChain's client for OpenAI's protocol was about to read."""
    while trace is not None:
        frame = trace.tb_frame
        found = frame.f_locals.get("response")
        known = frame.f_globals.get("__name__", "").startswith("langchain_openai.")
        if known and hasattr(found, "usage"):
            return found
        trace = trace.tb_next
    return None


def finish_of(message: AIMessage) -> str:
    """Why it ended, in one vocabulary: ``stop``, ``length`` or ``filter``."""
    meta = message.response_metadata
    incomplete = meta.get("incomplete_details") or {}
    reason = (
        meta.get("finish_reason")
        or meta.get("stop_reason")
        or meta.get("stopReason")  # Bedrock's Converse
        or meta.get("done_reason")
        or incomplete.get("reason")
        or "stop"
    )
    reason = str(reason).lower()
    if reason in LENGTH_REASONS:
        return "length"
    return "filter" if reason in FILTER_REASONS else "stop"


def visible_text(message: AIMessage) -> str:
    """The answer without the thinking that some servers leave inside the content.

    Thinking may lack its opening tag (chat templates open it in the prompt) or, when it ran into
    the cap, its closing one.
    """
    # Half a surrogate pair, which JSON can carry, breaks whoever encodes the text next.
    text = message.text.encode(errors="replace").decode()
    text = _CLOSED_THINKING.sub("", text)
    return _OPEN_THINKING.sub("", text).strip()
