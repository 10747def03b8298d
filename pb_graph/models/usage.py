"""The tokens of one response: measured where the provider reports them, else estimated."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately

LENGTH_REASONS = frozenset(
    {
        "length",
        "max_tokens",
        "max_output_tokens",
        "model_length",
        "model_context_window_exceeded",
    }
)
FILTER_REASONS = frozenset(
    {
        "content_filter",
        "safety",
        "refusal",
        "blocklist",
        "recitation",
        "prohibited_content",
        "spii",
    }
)

_FIRST_TOKENS, _MOST_LIKELY = 4, 20

_CLOSED_THINKING = re.compile(r"^.*</think>", re.DOTALL)
_OPEN_THINKING = re.compile(r"<think>.*\Z", re.DOTALL)


class Tokens(NamedTuple):
    """Tokens of one call. ``output`` includes ``reasoning``, ``input`` includes ``cached``."""

    input: int
    output: int
    reasoning: int
    cached: int
    measured: bool


def tokens_of(message: AIMessage, prompt: Sequence[BaseMessage]) -> Tokens:
    """Read the tokens a provider reported with ``message``, or estimate them from the text.

    The estimate counts characters, because exact tokenizers would have to be downloaded. It never
    counts a paid answer as nothing: text that is there costs at least one token.
    """
    usage = message.usage_metadata
    if usage is not None and (usage["output_tokens"] or not message.text):
        reasoning = (usage.get("output_token_details") or {}).get("reasoning") or 0
        cached = (usage.get("input_token_details") or {}).get("cache_read") or 0
        return Tokens(usage["input_tokens"], usage["output_tokens"], reasoning, cached, True)
    overhead = count_tokens_approximately([AIMessage("")])
    output = count_tokens_approximately([AIMessage(message.text)]) - overhead
    least = 1 if message.text else 0
    return Tokens(count_tokens_approximately(list(prompt)), max(least, output), 0, 0, False)


def reported(error: Exception) -> Tokens | None:
    """The tokens that came back with a reply that its client refused to hand over.

    OpenAI's client raises when a reply under its own ``response_format`` was cut off; the exception
    carries the completion. None when nothing was reported.
    """
    usage = getattr(getattr(error, "completion", None), "usage", None)
    prompt, written = (getattr(usage, f"{kind}_tokens", None) for kind in ("prompt", "completion"))
    if not isinstance(prompt, int) or not isinstance(written, int):
        return None
    return Tokens(prompt, written, 0, 0, measured=True)


def finish_of(message: AIMessage) -> str:
    """Why generation ended, in one vocabulary: ``stop``, ``length`` or ``filter``."""
    meta = message.response_metadata
    incomplete = meta.get("incomplete_details") or {}
    reason = (
        meta.get("finish_reason")
        or meta.get("stop_reason")
        or meta.get("done_reason")
        or incomplete.get("reason")
        or "stop"
    )
    reason = str(reason).lower()
    if reason in LENGTH_REASONS:
        return "length"
    return "filter" if reason in FILTER_REASONS else "stop"


def likely_tokens(message: AIMessage) -> list[dict[str, float]]:
    """The first tokens of a reply, each with those that might have stood there: probabilities.

    As servers of OpenAI's protocol tell them; empty where one does not, or not in this form.
    """
    told = message.response_metadata.get("logprobs")
    content = told.get("content") if isinstance(told, Mapping) else None
    try:
        return [
            {row["token"]: math.exp(min(0.0, row["logprob"])) for row in _rows(token)}
            for token in (content or [])[:_FIRST_TOKENS]
        ]
    except (TypeError, KeyError, ValueError, AttributeError):
        return []


def _rows(token: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [token, *(token.get("top_logprobs") or [])[:_MOST_LIKELY]]


def visible_text(message: AIMessage) -> str:
    """The answer without the thinking that some servers leave inside the content.

    Thinking may lack its opening tag (chat templates open it in the prompt) or, when it ran into
    the cap, its closing one.
    """
    # Half a surrogate pair, which JSON can carry, breaks whoever encodes the text next.
    text = message.text.encode(errors="replace").decode()
    text = _CLOSED_THINKING.sub("", text)
    return _OPEN_THINKING.sub("", text).strip()
