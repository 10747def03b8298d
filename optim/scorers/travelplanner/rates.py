"""TravelPlanner's rates over many items, from the metadata of their scores."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.scorers.base import ScorerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Rates:
    """Shares from 0 to 1, as the benchmark defines them.

    Attributes:
        delivery: Items with a readable plan.
        commonsense_micro: Commonsense checks passed, of all.
        commonsense_macro: Items that pass all of them.
        hard_micro: Hard constraints passed, of all that the items have; those of a plan that the
            gates keep out are not passed.
        hard_macro: Items that pass all of theirs (this is what a mean of the scores gives).
        final: Items that pass everything.
    """

    delivery: float
    commonsense_micro: float
    commonsense_macro: float
    hard_micro: float
    hard_macro: float
    final: float


def rates(items: Iterable[Mapping[str, Any]]) -> Rates:
    """All six rates.

    Args:
        items: `Score.metadata` of each item.

    Raises:
        ScorerError: There are no items.
    """
    rows = list(items)
    if not rows:
        msg = "rates need at least one scored item"
        raise ScorerError(msg)
    commonsense = [list(row["commonsense"].values()) for row in rows]
    hard = [list(row["hard"].values()) for row in rows]
    return Rates(
        delivery=_mean([row["delivered"] for row in rows]),
        commonsense_micro=_mean([passed for row in commonsense for passed in row]),
        commonsense_macro=_mean([all(row) for row in commonsense]),
        hard_micro=_mean([passed for row in hard for passed in row]),
        hard_macro=_mean([all(row) for row in hard]),
        final=_mean([all(a + b) for a, b in zip(commonsense, hard, strict=True)]),
    )


def by_constraint(items: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Of each check and constraint: how many items pass it, and how many have it."""
    passed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for item in items:
        for kind in ("commonsense", "hard"):
            for name, value in item[kind].items():
                total[f"{kind}.{name}"] += 1
                passed[f"{kind}.{name}"] += value
    return {name: (passed[name], count) for name, count in total.items()}


def _mean(values: list[bool]) -> float:
    return sum(values) / len(values)
