"""Latency breakdown: seconds of planning and estimation against seconds of solving."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from optim.records import planning_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.experiments.layout import Cells
    from optim.records import Record

__all__ = ["latency"]

_PERCENT = 100.0


def latency(records: Sequence[Record]) -> list[Cells]:
    """Give mean seconds of model time per query, by data set, planner and method.

    Answers without a score are left out, as everywhere. Seconds are those of the calls: what a
    shared plan took when it was made, and calls that ran at the same time each in full.
    """
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.score is not None:
            key = (record.dataset, record.planner, record.method)
            groups.setdefault(key, []).append(record)
    return [_row(key, group) for key, group in groups.items()]


def _row(key: tuple[str, str, str], group: Sequence[Record]) -> Cells:
    total = fmean(record.report["usage"]["seconds"] for record in group)
    planning = fmean(planning_seconds(record.report) for record in group)
    return {
        "dataset": key[0],
        "planner": key[1],
        "method": key[2],
        "n": len(group),
        "plan_s": _of_node(group, "plan"),
        "estimate_s": _of_node(group, "estimate"),
        "solving_s": total - planning,
        "total_s": total,
        "planning_%": _PERCENT * planning / total if total else None,
    }


def _of_node(group: Sequence[Record], node: str) -> float:
    parts = (record.report["usage"]["by_node"].get(node) for record in group)
    return fmean(part["seconds"] if part else 0.0 for part in parts)
