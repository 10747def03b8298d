"""What came of one call: the text, why it ended, and what it is charged to its purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import message_to_dict

from pb_graph.budget.ledger import most_billed, spent
from pb_graph.models.usage import (
    LONGEST_TOKEN,
    Tokens,
    estimate,
    finish_of,
    read_usage,
    visible_text,
)
from pb_graph.types import Charge, Purpose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import AIMessage, BaseMessage

    from pb_graph.models.options import CallOptions

_LEAST_READ = 20_000  # characters of a reply


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the visible text, why it ended, and what the call was charged.

    ``lost`` are the charges of attempts that came to nothing before it, where they may be paid for;
    one of unknown cost is there with what arrived of it, and not ``measured``. ``doubt`` says why
    the tokens that a server reported were not believed.
    """

    text: str
    finish: str
    charge: Charge
    lost: tuple[Charge, ...] = ()
    doubt: str = ""
    calls_tools: dict[str, Any] | None = None
    """The whole message, as JSON, where it calls tools: some providers want all of it back."""

    @property
    def tokens(self) -> int:
        """Completion tokens of all attempts."""
        return spent((*self.lost, self.charge))

    @property
    def most_billed(self) -> int:
        """The same, with the whole caps of those whose bill is unknown."""
        return most_billed((*self.lost, self.charge))


def reply_of(  # noqa: PLR0913 -- what a call is made of
    message: AIMessage,
    prompt: Sequence[BaseMessage],
    limits: CallOptions,
    purpose: Purpose,
    seconds: float,
    *,
    echoes: bool = False,
) -> Reply:
    """Read what a model wrote, and charge it; a text far beyond its cap is cut off."""
    finish = finish_of(message)
    found = read_usage(message, limits.cap)
    doubt = found if isinstance(found, str) else ""
    if not isinstance(found, Tokens):
        found = estimate(message, prompt)
        found = found._replace(output=_plausible(found.output, finish, limits.cap))
    charge = charge_of(found, limits.cap, purpose, seconds, finish)
    text = _piece(message, prompt, echoes=echoes) if limits.continue_last else visible_text(message)
    longest = max(_LEAST_READ, limits.cap * LONGEST_TOKEN)
    if len(text) > longest:  # only from a server that takes no notice of the cap
        text, finish = text[:longest], "length"
    calls = message_to_dict(message) if message.tool_calls else None
    return Reply(text, finish, charge, doubt=doubt, calls_tools=calls)


def _piece(message: AIMessage, prompt: Sequence[BaseMessage], *, echoes: bool) -> str:
    """A piece of a text as it was written, without what it goes on from."""
    text = message.text.encode(errors="replace").decode()
    begun = prompt[-1].text if echoes and prompt[-1].type == "ai" else ""
    said = begun if text.startswith(begun) else begun.rstrip()  # some templates trim a turn
    return text.removeprefix(said)


def charge_of(tokens: Tokens, cap: int, purpose: Purpose, seconds: float, finish: str) -> Charge:
    """The entry of one attempt in the ledger."""
    return Charge(
        node=purpose.node,
        step=purpose.step,
        cap=cap,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        reasoning_tokens=tokens.reasoning,
        cached_tokens=tokens.cached,
        seconds=round(seconds, 4),
        finish=finish,
        measured=tokens.measured,
    )


def _plausible(guess: int, finish: str, cap: int) -> int:
    """What a capped reply can have cost, given the estimate from its text.

    One that ended at its cap cost the cap, however much of it was hidden thinking. An estimate a
    little above the cap is the estimate's fault; one far above it shows that the cap was ignored.
    """
    if passes_cap(guess, cap):
        return guess
    return cap if finish == "length" else min(guess, cap)


def passes_cap(guess: int, cap: int) -> bool:
    """Whether an estimate is so far above a cap that the cap was ignored."""
    return guess > 2 * cap + 16
