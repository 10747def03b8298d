"""What came of one call: the text, why it ended, and what it is charged to its purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, message_to_dict

from pb_graph.budget.ledger import most_billed, spent
from pb_graph.models.options import CallOptions
from pb_graph.models.usage import (
    LONGEST_TOKEN,
    Tokens,
    estimate,
    finish_of,
    read_usage,
    visible_text,
)
from pb_graph.types import Charge

_LEAST_READ = 20_000  # characters of a reply


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
    """

    text: str
    finish: str
    charge: Charge
    lost: tuple[Charge, ...] = ()
    warnings: tuple[str, ...] = ()
    tool_message: dict[str, Any] | None = None
    message_id: str | None = field(default=None, compare=False)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Return the charges of all attempts, in order."""
        return (*self.lost, self.charge)

    @property
    def tokens(self) -> int:
        """Return the completion tokens of all attempts."""
        return spent(self.charges)

    @property
    def most_billed(self) -> int:
        """Return the same, with the whole caps of attempts whose bill is unknown."""
        return most_billed(self.charges)

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
) -> Reply:
    """Read what a model wrote, and charge it; a text far beyond its cap is cut off.

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
    warnings = [f"{tokens}; estimated instead"] if isinstance(tokens, str) and tokens else []
    if not isinstance(tokens, Tokens):
        tokens = estimate(message, prompt)
        tokens = tokens._replace(output=_plausible(tokens.output, finish, cap))
    if tokens.output > cap:
        warnings.append(f"{model} ignored its cap of {cap} tokens and wrote {tokens.output}")
    text = (
        _continuation(message, prompt, echoes) if options.continue_last else visible_text(message)
    )
    longest = max(_LEAST_READ, cap * LONGEST_TOKEN)
    if len(text) > longest:
        text, finish = text[:longest], "length"
    return Reply(
        text,
        finish,
        charge_of(tokens, options, seconds, finish, model),
        warnings=tuple(warnings),
        tool_message=message_to_dict(message) if message.tool_calls else None,
        message_id=message.id,
    )


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
