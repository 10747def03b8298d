"""What the right row for every question could reach, and where each row's tokens go instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from optim.records import cut_off
from optim.statistics.oracle import Answer, Oracle, Share, Waste, oracle, reached, waste
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.report.groups import Study

WASTE: Mapping[str, str] = {
    "needed": "right, as cheap as any",
    "overthinking": "overthinking: beyond the cheapest right row",
    "starvation": "starvation: cut off, a dearer row is right",
    "missed": "other wrong answers where a row is right",
    "futility": "futility: no row is right",
}
"""Parts of T, and what they are called."""


@dataclass(frozen=True, slots=True)
class Reachable:
    """The oracle of a study, and its rows beside it."""

    oracle: Oracle
    shares: Mapping[str, Share]
    waste: Mapping[str, Waste]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        best = self.oracle
        return {
            "accuracy": best.accuracy,
            "tokens": best.tokens,
            "e3": best.e3,
            "picks": dict(best.picks),
            "questions": best.questions,
            "split_halves": best.split,
            "biased_upwards": not best.split,
            "rows": {
                name: {"share": share._asdict(), "tokens": asdict(self.waste[name])}
                for name, share in self.shares.items()
            },
        }


def reachable(study: Study) -> Reachable | None:
    """Find out what a study's rows could reach together.

    None with a single row, where answers are not just right or wrong, and where no question has an
    answer of every row.
    """
    rows: dict[str, dict[str, list[Answer]]] = {method: {} for method in study.methods}
    for record in sorted(study.records, key=lambda record: record.epoch):
        if record.score is not None:
            answer = Answer(record.score == 1, record.tokens, cut_off(record))
            rows[record.method].setdefault(record.question, []).append(answer)
    graded = any(record.score not in {None, 0.0, 1.0} for record in study.records)
    if len(rows) == 1 or graded:
        return None
    try:
        best = oracle(rows)
        shares = {name: reached(rows, name, best) for name in rows}
    except InputError:  # no shared question, or no token at all
        return None
    return Reachable(best, shares, {name: waste(rows, name) for name in rows})
