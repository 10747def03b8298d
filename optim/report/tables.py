"""Tables of records: by level, by position, by budget, and of seconds; a list of rows each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.summary import BY_METHOD, Cells, Row, grouped, mean, rows, scored, summarize

if TYPE_CHECKING:
    from optim.records import Record

_GRID_POINT = re.compile(r"(.*)\[(\d+)\+(\d+)L\]")


def by_level(records: Sequence[Record]) -> list[Cells]:
    """Give every method's figures at each level of the data set's own labels, easiest first."""
    found = summarize(records, (*BY_METHOD, "level"))
    return [
        {
            **_labels(row),
            "level": level,
            "questions": row.questions,
            "n": row.n,
            "errors": row.errors,
            "accuracy": row.accuracy,
            "T": row.tokens,
            "T_solving": row.solving_tokens,
            "E³": row.e3,
        }
        for (*_, level), row in sorted(  # those without a level come last
            found.items(), key=lambda pair: (pair[0][-1] is None, pair[0][-1] or 0)
        )
    ]


def level_estimates(records: Sequence[Record]) -> list[Cells]:
    """Give estimated levels against the data set's labels, for each method that estimates them.

    ``agreement_%`` counts equal levels, ``mean_error`` is estimate minus label, and
    ``estimate_T`` the mean tokens of the estimate: None where it is made along with the plan.
    """
    estimated = [r for r in records if r.level_source == "estimated" and r.level is not None]
    return [_estimates(group) for group in grouped(estimated).values()]


def credits_by_position(records: Sequence[Record]) -> list[Cells]:
    """Give the mean credits (of 100) of plans' first, second … steps, by their number of steps.

    A plan that several methods share counts once.
    """
    plans: dict[tuple[str, str, int], set[tuple[Any, ...]]] = {}
    for record in records:
        steps = record.report["steps"]
        shares = tuple(step["credit"] for step in steps if step["credit"] is not None)
        if shares and len(shares) == len(steps):
            key = (record.dataset, record.planner, len(shares))
            plans.setdefault(key, set()).add((record.question, *shares))
    longest = max((steps for *_, steps in plans), default=0)
    return [
        {
            "dataset": dataset,
            "planner": planner,
            "steps": steps,
            "plans": len(group),
            **{
                f"step_{place}": fmean(plan[place] for plan in group) if place <= steps else None
                for place in range(1, longest + 1)
            },
        }
        for (dataset, planner, steps), group in sorted(plans.items())
    ]


def latency(records: Sequence[Record]) -> list[Cells]:
    """Give mean seconds of model time per query, by data set, solver, planner and method.

    Answers without a score are left out, as everywhere. Seconds are those of the calls: what a
    shared plan took when it was made, and calls that ran at the same time each in full.
    """
    return [_latency(group) for group in grouped(scored(records)).values()]


def sensitivity(records: Sequence[Record]) -> list[Cells]:
    """Give each method's mean budget beside what was spent on solving, and what that brought."""
    return [
        {
            **_labels(row),
            "n": row.n,
            "errors": row.errors,
            "level": row.level,
            "budget": mean(r.report["budget"] for r in scored(group)),
            "T_solving": row.solving_tokens,
            "T": row.tokens,
            "accuracy": row.accuracy,
            "E³": row.e3,
        }
        for row, group in zip(rows(records), grouped(records).values(), strict=True)
    ]


def budget_grid(records: Sequence[Record]) -> list[Cells]:
    """Lay E³ out by B_init (down) and B_per_level (across); of ``cosine[100+50L]`` and the like."""
    found: dict[tuple[str, str, str, int], dict[int, float | None]] = {}
    for (dataset, _, planner, method), row in summarize(records).items():
        if point := _GRID_POINT.fullmatch(method):
            line = found.setdefault((dataset, planner, point[1], int(point[2])), {})
            line[int(point[3])] = row.e3
    across = sorted({per_level for line in found.values() for per_level in line})
    return [
        {
            "dataset": dataset,
            "planner": planner,
            "method": method,
            "B_init": initial,
            **{f"{per_level}L": line.get(per_level) for per_level in across},
        }
        for (dataset, planner, method, initial), line in sorted(found.items())
    ]


def _labels(about: Record | Row) -> Cells:
    return {name: getattr(about, name) for name in BY_METHOD}


def _estimates(group: Sequence[Record]) -> Cells:
    pairs = np.array([(record.report["level"], record.level) for record in group], dtype=float)
    error = pairs[:, 0] - pairs[:, 1]
    # Ties have their mean rank; where one side does not vary, there is no correlation.
    ranks = [[np.mean(column < v) + np.mean(column <= v) for v in column] for column in pairs.T]
    varied = all(len(set(column)) > 1 for column in pairs.T)
    nodes = [record.report["usage"]["by_node"].get("estimate") for record in group]
    return {
        **_labels(group[0]),
        "n": len(group),
        "agreement_%": 100 * float(np.mean(error == 0)),
        "mean_error": float(error.mean()),
        "mean_absolute_error": float(np.abs(error).mean()),
        "rank_correlation": float(np.corrcoef(ranks)[0, 1]) if varied else None,
        "estimate_T": mean(node["output_tokens"] for node in nodes if node),
    }


def _latency(group: Sequence[Record]) -> Cells:
    total = fmean(record.report["usage"]["seconds"] for record in group)
    nodes = [record.report["usage"]["by_node"] for record in group]
    plan, estimate = (
        fmean(parts[node]["seconds"] if node in parts else 0.0 for parts in nodes)
        for node in ("plan", "estimate")
    )
    return {
        **_labels(group[0]),
        "n": len(group),
        "plan_s": plan,
        "estimate_s": estimate,
        "solving_s": total - plan - estimate,
        "total_s": total,
        "planning_%": 100 * (plan + estimate) / total if total else None,
    }
