"""What each model call was charged, and the sums that a report shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from typing_extensions import TypedDict  # pydantic cannot read typing's own before Python 3.12


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a call is made for, as the ledger and the traces show it."""

    node: str
    step: int | None = None


class Charge(TypedDict):
    """One model call, as it was charged: the unit of token truth."""

    node: str
    """The graph node that made the call."""
    step: int | None
    """Index of the sub-question it was made for, if any."""
    cap: int
    """Completion tokens the call was allowed."""
    input_tokens: int
    output_tokens: int
    """Completion tokens, reasoning included; of a lost attempt what is known to have arrived."""
    reasoning_tokens: int
    cached_tokens: int
    seconds: float
    finish: str
    """Why it ended: stop, length, filter or error."""
    measured: bool
    """Whether the provider reported the tokens; otherwise they are estimated."""


class Usage(TypedDict):
    """Sums over calls; ``seconds`` adds up the calls' own durations, parallel ones too."""

    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cached_tokens: int
    calls: int
    seconds: float
    measured: bool


class QueryUsage(Usage):
    """The usage of one query, also split by node."""

    by_node: dict[str, Usage]


def total(charges: Iterable[Charge]) -> Usage:
    """Sum up ``charges``; the sum is measured only when every part of it is."""
    rows = list(charges)
    return Usage(
        input_tokens=sum(row["input_tokens"] for row in rows),
        output_tokens=sum(row["output_tokens"] for row in rows),
        reasoning_tokens=sum(row["reasoning_tokens"] for row in rows),
        cached_tokens=sum(row["cached_tokens"] for row in rows),
        calls=len(rows),
        seconds=round(sum(row["seconds"] for row in rows), 3),
        measured=all(row["measured"] for row in rows),
    )


def by_node(charges: Iterable[Charge]) -> QueryUsage:
    """Sum up ``charges`` for the query, and for each node in order of first appearance."""
    rows = list(charges)
    nodes = dict.fromkeys(row["node"] for row in rows)
    return QueryUsage(
        **total(rows),
        by_node={node: total(row for row in rows if row["node"] == node) for node in nodes},
    )


def spent(charges: Iterable[Charge]) -> int:
    """Completion tokens of ``charges``."""
    return sum(row["output_tokens"] for row in charges)


def most_billed(charges: Iterable[Charge]) -> int:
    """Completion tokens that the provider may have charged for: `spent`, at most.

    A lost attempt, whose bill is unknown, counts as its whole cap. A reply that arrived whole
    counts as it was charged, also where that is an estimate.
    """
    return sum(
        max(row["output_tokens"], row["cap"])
        if row["finish"] == "error" and not row["measured"]
        else row["output_tokens"]
        for row in charges
    )
