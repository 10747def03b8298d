"""The reply to one call: its text, why it ended, and the tokens that it is charged.

Tokens are measured where the provider reports them, else estimated from the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeGuard

from langchain_core.messages import AIMessage, BaseMessage, message_to_dict
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.utils import count_tokens_approximately

from pb_graph.answers import without_thinking
from pb_graph.budget.ledger import spent
from pb_graph.models.options import CallOptions
from pb_graph.models.provider_errors import may_be_billed
from pb_graph.types import Charge, ReportWarning

LENGTH_REASONS = frozenset(
    {
        *("length", "max_tokens", "max_output_tokens", "model_length"),
        "model_context_window_exceeded",
        # The server broke the reply off: a router's and vLLM's words, SGLang's, DeepSeek's.
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
"""Characters that the tokens of no tokenizer have on average."""
_NO_CALL_HAS = 10_000_000
"""Tokens that no single call can have, of prompt or completion."""
_LEAST_READ = 20_000  # characters of a reply


class Tokens(NamedTuple):
    """Tokens of one call.

    ``output`` includes ``reasoning``; ``input`` includes ``cached``, and ``written`` to a cache.
    """

    input: int
    output: int
    reasoning: int
    cached: int
    measured: bool
    written: int = 0


UNKNOWN = Tokens(0, 0, 0, 0, measured=False)
"""The tokens of a lost attempt that may have been billed by any amount up to its cap."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to one call.

    Attributes:
        text: The visible text.
        finish: Why the reply ended: ``stop``, ``length`` or ``filter``.
        charge: What the call was charged.
        lost: Charges of attempts before it that failed after they may have been paid.
        warnings: Why the server's account or its respect of the cap is doubted.
        tool_message: The whole message as JSON, if it calls tools: some providers want all of it
            back.
        message_id: The id under which the message was streamed to a host.
        effort: The reasoning effort that was asked for, and why; None if none was.
    """

    text: str
    finish: str
    charge: Charge
    lost: tuple[Charge, ...] = ()
    warnings: tuple[ReportWarning, ...] = ()
    tool_message: dict[str, Any] | None = None
    message_id: str | None = field(default=None, compare=False)
    effort: str | None = None

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


def read_reply(  # noqa: PLR0913 -- what a call is made of
    message: AIMessage,
    prompt: Sequence[BaseMessage],
    options: CallOptions,
    *,
    seconds: float,
    model: str,
    echoes: bool = False,
) -> tuple[Reply, Tokens]:
    """Read what a model wrote, and what it cost; a text far beyond its cap is cut off.

    Args:
        message: The response.
        prompt: The messages that it answers.
        options: The options of the call; their cap is that of this attempt.
        seconds: How long the attempt took.
        model: The name of the model, for the charge.
        echoes: Whether the server repeats the last message that it continues.
    """
    finish, cap = finish_of(message), options.cap
    tokens = read_usage(message, cap)
    warnings: list[ReportWarning] = []
    if not isinstance(tokens, Tokens):
        if tokens:
            note = f"{tokens}; estimated instead"
            warnings.append(ReportWarning(code="usage_estimated", message=note))
        tokens = estimate(message, prompt)
        tokens = tokens._replace(output=_plausible(tokens.output, finish, cap))
    if tokens.output > cap:
        note = f"{model} ignored its cap of {cap} tokens and wrote {tokens.output}"
        warnings.append(ReportWarning(code="cap_ignored", message=note))
    longest = max(_LEAST_READ, cap * LONGEST_TOKEN)
    if len(message.text) > longest:
        finish = "length"
    charge = charge_of(tokens, options, seconds, finish, model)
    text = (
        _continuation(message, prompt, echoes) if options.continue_last else visible_text(message)
    )
    reply = Reply(
        text[:longest],
        finish,
        charge,
        warnings=tuple(warnings),
        tool_message=message_to_dict(message) if message.tool_calls else None,
        message_id=message.id,
    )
    return reply, tokens


def charge_of(
    tokens: Tokens, options: CallOptions, seconds: float, finish: str, model: str
) -> Charge:
    """Return the entry of one attempt in the ledger.

    Args:
        tokens: The tokens of the attempt.
        options: The options of the call; their cap is that of this attempt.
        seconds: How long the attempt took.
        finish: Why the attempt ended.
        model: The name of the model.
    """
    return Charge(
        node=options.purpose.node,
        step=options.purpose.step,
        cap=options.cap,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        reasoning_tokens=tokens.reasoning,
        cached_tokens=tokens.cached,
        seconds=round(seconds, 4),
        finish=finish,
        measured=tokens.measured,
        model=model,
    )


def tokens_of(message: AIMessage, prompt: Sequence[BaseMessage], cap: int | None = None) -> Tokens:
    """Return the tokens that a provider reported, else an estimate from the text.

    Args:
        message: The response.
        prompt: The messages that it answers.
        cap: The completion tokens that were asked for, if known.
    """
    found = read_usage(message, cap)
    return found if isinstance(found, Tokens) else estimate(message, prompt)


def tokens_of_error(error: Exception) -> Tokens | None:
    """Return the tokens that a failed attempt cost.

    OpenAI's client refuses a reply that was cut off under its own ``response_format``, LangChain a
    reply that has not the asked form. Both errors carry the reply, which was paid for.

    Returns:
        The tokens; `UNKNOWN` if the attempt may have been billed and nobody says how much; None if
        it was refused or never sent.
    """
    usage = getattr(getattr(error, "completion", None), "usage", None)
    prompt, written = (getattr(usage, f"{kind}_tokens", None) for kind in ("prompt", "completion"))
    if _is_count(prompt) and _is_count(written):
        return Tokens(int(prompt), int(written), 0, 0, measured=True)
    message = getattr(error, "ai_message", None)
    if isinstance(message, AIMessage):
        return tokens_of(message, [])
    return UNKNOWN if usage is not None or may_be_billed(error) else None


def read_usage(  # noqa: PLR0911 -- one for each fault of a report
    message: AIMessage, cap: int | None = None
) -> Tokens | str:
    """Read the tokens that a provider reported, if they are plausible.

    Reasoning that a gateway left out of the completion tokens is found in the total, or in the
    details. More than the cap is believed if the text can have cost it: a token is a byte or more;
    fewer than the text must have cost is not.

    Args:
        message: The response.
        cap: The completion tokens that were asked for, if known.

    Returns:
        The tokens; else what is wrong with the report, or '' if there is none.
    """
    usage = message.usage_metadata
    if usage is None:
        return ""
    given, written = usage.get("input_tokens"), usage.get("output_tokens")
    if not (_is_count(given) and _is_count(written)):
        return f"the server reported {given!r:.40} prompt and {written!r:.40} completion tokens"
    if given == written == usage.get("total_tokens") == 1:
        return "the server reported no numbers of tokens"  # OpenAI's client reads true as 1
    reasoning = _detail(usage.get("output_token_details"), "reasoning")
    details = usage.get("input_token_details")
    cached, stored = _detail(details, "cache_read"), _detail(details, "cache_creation")
    written = max(written + _left_out(usage), reasoning)
    text = _written_text(message)
    if not written and (text or finish_of(message) == "length"):
        return ""  # some servers say 0 for 'not known'
    if written * LONGEST_TOKEN < len(text):
        return f"the server reported {written} completion tokens for {len(text)} characters"
    if cap is not None and cap < written - reasoning > len(text.encode(errors="replace")):
        return f"the server reported {written} completion tokens, of {cap} that were asked for"
    cached = min(cached, given)
    stored = min(stored, given - cached)
    return Tokens(given, written, min(reasoning, written), cached, measured=True, written=stored)


def estimate(message: AIMessage, prompt: Sequence[BaseMessage]) -> Tokens:
    """Estimate the tokens of a response from the number of its characters.

    Exact tokenizers would have to be downloaded. A paid answer never counts as nothing: text costs
    at least one token.

    Args:
        message: The response.
        prompt: The messages that it answers.
    """
    text = _written_text(message)
    overhead = count_tokens_approximately([AIMessage("")])
    output = count_tokens_approximately([AIMessage(text)]) - overhead
    least = 1 if text else 0
    return Tokens(count_tokens_approximately(list(prompt)), max(least, output), 0, 0, False)


def finish_of(message: AIMessage) -> str:
    """Return why a response ended, in one vocabulary: ``stop``, ``length`` or ``filter``."""
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
    half = reason[: len(reason) // 2]
    if half + half == reason:  # OpenRouter streams it twice, and LangChain joins both
        reason = half
    if reason in LENGTH_REASONS:
        return "length"
    return "filter" if reason in FILTER_REASONS else "stop"


def visible_text(message: AIMessage) -> str:
    """Return the text of a response without the thinking that some servers leave inside."""
    # Half a surrogate pair, which JSON can carry, breaks whoever encodes the text next.
    return without_thinking(message.text.encode(errors="replace").decode())


def _continuation(message: AIMessage, prompt: Sequence[BaseMessage], echoes: bool) -> str:
    """Return a piece of a text as it was written, without the beginning that it continues."""
    text = message.text.encode(errors="replace").decode()
    begun = prompt[-1].text if echoes and prompt[-1].type == "ai" else ""
    said = begun if text.startswith(begun) else begun.rstrip()  # some templates trim a message
    return text.removeprefix(said)


def _plausible(guess: int, finish: str, cap: int) -> int:
    """Return what a capped reply can have cost, given the estimate from its text.

    A reply that ended at its cap cost the cap, however much of it was hidden thinking. An estimate
    a little above the cap is the estimate's fault; one far above it shows that the cap was ignored.
    """
    if guess > 2 * cap + 16:
        return guess
    return cap if finish == "length" else min(guess, cap)


def _is_count(number: object) -> TypeGuard[int]:
    return type(number) is int and 0 <= number < _NO_CALL_HAS


def _detail(details: object, name: str) -> int:
    found = details.get(name) if isinstance(details, dict) else None
    return int(found) if _is_count(found) else 0


def _left_out(usage: UsageMetadata) -> int:
    """Return tokens in the total but in neither part: reasoning, unless they were cached."""
    total = usage.get("total_tokens")
    if not _is_count(total):
        return 0
    missing = total - usage["input_tokens"] - usage["output_tokens"]
    details = usage.get("input_token_details")
    cached = (_detail(details, "cache_read"), _detail(details, "cache_creation"))
    return 0 if missing in (*cached, sum(cached)) else max(0, missing)


def _written_text(message: AIMessage) -> str:
    """Return everything that a model wrote: thinking and tool calls were paid for, too."""
    thought = message.additional_kwargs.get("reasoning_content")
    made = [*message.tool_calls, *message.invalid_tool_calls]
    called = [json.dumps([call["name"], call["args"]], default=str) for call in made]
    return "".join([message.text, thought if isinstance(thought, str) else "", *called])
