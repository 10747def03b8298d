"""Budget sensitivity: a grid of B_init and B_per_level against the tokens really used."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from optim.summary import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.experiments.layout import Cells
    from optim.records import Record

__all__ = ["sensitivity"]


def sensitivity(records: Sequence[Record]) -> list[Cells]:
    """Give each method's mean budget beside what was spent on solving, and what that brought."""
    return [
        {
            "method": row.method,
            "n": row.n,
            "errors": row.errors,
            "budget": _mean_budget([r for r in records if r.method == row.method]),
            "T_solving": row.solving_tokens,
            "T": row.tokens,
            "accuracy": row.accuracy,
            "E³": row.e3,
        }
        for row in rows(records)
    ]


def _mean_budget(records: Sequence[Record]) -> float | None:
    budgets = [r.report["budget"] for r in records if r.score is not None]
    known = [budget for budget in budgets if budget is not None]
    return fmean(known) if known else None
