"""What tokens were spent on, and how that compares with the budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from optim.statistics.estimates import accuracy_interval, token_interval

if TYPE_CHECKING:
    from optim.records import Record

__all__ = ["PARTS", "Spent", "by_position", "mean_parts", "score_ends", "spent", "token_ends"]

PARTS = {
    "plan": "plan",
    "estimate": "estimate",
    "answer": "answer, in one call",
    "solve": "solve, step by step",
    "solve length": "steps cut off at their cap",
    "solve forced": "steps forced to an end",
    "solve error": "failed steps",
    "synthesize": "synthesize",
}
"""Parts of a query's completion tokens, in the order in which they are spent, and their names."""

_ENDINGS = ("length", "forced", "error")


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens used of a budget: by a step, or by all the solving of a question."""

    budget: int
    tokens: int


def mean_parts(records: Sequence[Record]) -> dict[str, float]:
    """Mean completion tokens per scored answer, by part; they add up to T."""
    split = [_parts(record) for record in records if record.score is not None]
    names = dict.fromkeys([*PARTS, *(name for parts in split for name in parts)])
    means = {name: fmean(parts.get(name, 0) for parts in split) for name in names if split}
    return {name: mean for name, mean in means.items() if mean}


def spent(records: Sequence[Record]) -> tuple[Literal["step", "question"], list[Spent]]:
    """Budgets and what was used of them: by step where that is known, else by question."""
    scored = [record for record in records if record.score is not None]
    steps = [
        Spent(step["budget"], step["tokens"])
        for record in scored
        for step in record.report["steps"]
        if step["budget"] is not None and step["tokens"] is not None
    ]
    if steps:
        return "step", steps
    whole = [(record.report["budget"], record.solving_tokens) for record in scored]
    return "question", [Spent(budget, tokens) for budget, tokens in whole if budget is not None]


def by_position(records: Sequence[Record]) -> list[tuple[int, int, float, float | None]]:
    """For the first step, the second …: how many, their mean budget, their mean tokens if known."""
    places: dict[int, list[tuple[int, int | None]]] = {}
    for record in records:
        for step in record.report["steps"] if record.score is not None else []:
            if step["budget"] is not None:
                places.setdefault(step["index"], []).append((step["budget"], step["tokens"]))
    return [_position(place, found) for place, found in sorted(places.items())]


def token_ends(records: Sequence[Record]) -> tuple[float | None, float | None]:
    """Ends of T's 95 % interval, clustered by question."""
    tokens = [record.tokens for record in records]
    return token_interval(tokens, clusters=[record.question for record in records])


def score_ends(records: Sequence[Record]) -> tuple[float, float]:
    """Ends of A's 95 % interval in percent, clustered by question."""
    scores = [record.score or 0.0 for record in records]
    return accuracy_interval(scores, clusters=[record.question for record in records])


def _parts(record: Record) -> dict[str, int]:
    parts = {
        node: usage["output_tokens"] for node, usage in record.report["usage"]["by_node"].items()
    }
    for ending in _ENDINGS:
        tokens = sum(s["tokens"] or 0 for s in record.report["steps"] if s["finish"] == ending)
        moved = min(tokens, parts.get("solve", 0))
        if moved:
            parts[f"solve {ending}"] = moved
            parts["solve"] -= moved
    return parts


def _position(
    place: int, found: Sequence[tuple[int, int | None]]
) -> tuple[int, int, float, float | None]:
    used = [tokens for _, tokens in found if tokens is not None]
    mean = fmean(used) if used else None
    return place + 1, len(found), fmean(budget for budget, _ in found), mean
