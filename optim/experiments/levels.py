"""Tokens and score by difficulty: where a method thinks too much, and where too little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.summary import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.experiments.layout import Cells
    from optim.records import Record

__all__ = ["by_level"]


def by_level(records: Sequence[Record]) -> list[Cells]:
    """Give every method's figures at each level of the data set's own labels, easiest first."""
    levels = sorted({record.level for record in records}, key=lambda level: (level is None, level))
    return [
        {
            "dataset": row.dataset,
            "planner": row.planner,
            "method": row.method,
            "level": level,
            "n": row.n,
            "errors": row.errors,
            "accuracy": row.accuracy,
            "T": row.tokens,
            "T_solving": row.solving_tokens,
            "E³": row.e3,
        }
        for level in levels
        for row in rows([record for record in records if record.level == level])
    ]
