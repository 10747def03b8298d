"""The figures of records by any grouping: the table, levels, latency, budgets, plans."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from optim.e3 import a_over_t, accuracy_interval, e3, interval, over_runs, token_interval
from optim.records import planning_seconds
from optim.scorers.travelplanner import Rates, rates
from optim.statistics.comparison import FEW
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.records import LevelSource, Record

__all__ = [
    "FEW",
    "PARTS",
    "RATES",
    "BudgetUse",
    "Cells",
    "Row",
    "budget_grid",
    "budget_use",
    "by_level",
    "by_position",
    "credits_by_position",
    "grouped",
    "latency",
    "level_estimates",
    "mean_parts",
    "rows",
    "sensitivity",
    "summarize",
]

Cells = Mapping[str, str | int | float | None]
"""A row of a plain table: column name to value."""

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

RATES = tuple(field.name for field in fields(Rates))
"""Names of TravelPlanner's six rates."""

_METHOD = ("dataset", "model", "planner", "method")
_GRID_POINT = re.compile(r"(.*)\[(\d+)\+(\d+)L\]")
_JUDGED = {"delivered", "commonsense", "hard"}  # what TravelPlanner's scorer says of each answer


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one method on one data set, or of whatever else answers are grouped by.

    An answer without a score (an error) is neither right nor wrong, so it is no part of the
    figures, and `errors` says how many there are; `e3_with_errors` is E³ over all answers, with
    errors as score 0 at the tokens they cost. When the two differ, look at the errors first.

    Attributes:
        dataset: Name of the data set.
        method: Name of the method.
        model: Name of the model that solved.
        planner: Name of the model that planned.
        n: Answers with a score.
        errors: Answers without.
        accuracy: A: mean score in percent; None without any score, like all that follow.
        tokens: T: mean completion tokens per query, planning included.
        solving_tokens: T without planning.
        e3: A²/T; biased upwards below `FEW` questions.
        e3_lower: Lower end of its 95 % interval, clustered by question; None when undefined.
        e3_upper: Upper end, likewise.
        e3_with_errors: E³ over all answers, errors counted as 0.
        a_over_t: A/T, in percentage points per token.
        seconds: Mean seconds of model time per query, those of the plan included.
        measured: Whether all tokens were reported by the provider, none estimated.
        questions: Different questions among the scored answers.
        level: Whether the questions' levels are the data set's labels or estimated and paid for;
            None where no level was used.
        unboxed: Share of scored answers that had no box; None where the scorer does not say.
        runs: Epochs among the scored answers.
        accuracy_sd: Standard deviation of the runs' A; None with a single run, like the next two.
        tokens_sd: Of their T.
        e3_sd: Of their E³.
        accuracy_lower: Lower end of A's 95 % interval.
        accuracy_upper: Upper end.
        tokens_lower: Lower end of T's; None with a single question.
        tokens_upper: Upper end, likewise.
        rates: TravelPlanner's six rates, from 0 to 1; None with any other scorer.
    """

    dataset: str
    method: str
    model: str
    planner: str
    n: int
    errors: int
    accuracy: float | None
    tokens: float | None
    solving_tokens: float | None
    e3: float | None
    e3_lower: float | None
    e3_upper: float | None
    e3_with_errors: float | None
    a_over_t: float | None
    seconds: float | None
    measured: bool
    questions: int = 0
    level: LevelSource | None = None
    unboxed: float | None = None
    runs: int | None = None
    accuracy_sd: float | None = None
    tokens_sd: float | None = None
    e3_sd: float | None = None
    accuracy_lower: float | None = None
    accuracy_upper: float | None = None
    tokens_lower: float | None = None
    tokens_upper: float | None = None
    rates: Mapping[str, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """Tokens used of a budget: by a step, or by all the solving of a question."""

    budget: int
    tokens: int


def grouped(
    records: Iterable[Record], by: Sequence[str] = _METHOD
) -> dict[tuple[Any, ...], list[Record]]:
    """Sort records by fields of theirs, in order of first appearance."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(getattr(record, name) for name in by), []).append(record)
    return groups


def summarize(records: Iterable[Record], by: Sequence[str] = _METHOD) -> dict[tuple[Any, ...], Row]:
    """Sum up records by fields of theirs; a row names the first of what it is not grouped by."""
    return {key: _row(group) for key, group in grouped(records, by).items()}


def rows(records: Iterable[Record]) -> list[Row]:
    """Sum up records by data set, solver, planner and method, in order of first appearance."""
    return list(summarize(records).values())


def by_level(records: Sequence[Record]) -> list[Cells]:
    """Give every method's figures at each level of the data set's own labels, easiest first."""
    found = summarize(records, (*_METHOD, "level"))
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
        for (*_, level), row in sorted(found.items(), key=lambda pair: _last(pair[0]))
    ]


def level_estimates(records: Sequence[Record]) -> list[Cells]:
    """Give estimated levels against the data set's labels, for each method that estimates them.

    ``agreement_%`` counts equal levels, ``mean_error`` is estimate minus label, and
    ``estimate_T`` the mean tokens of the estimate: None where it is made along with the plan.
    """
    judged = [
        record
        for record in records
        if record.level_source == "estimated" and record.level is not None
    ]
    return [_estimates(group) for group in grouped(judged).values()]


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
    """Give mean seconds of model time per query, by data set, planner and method.

    Answers without a score are left out, as everywhere. Seconds are those of the calls: what a
    shared plan took when it was made, and calls that ran at the same time each in full.
    """
    found = grouped(_scored(records), ("dataset", "planner", "method"))
    return [_latency(group) for group in found.values()]


def sensitivity(records: Sequence[Record]) -> list[Cells]:
    """Give each method's mean budget beside what was spent on solving, and what that brought."""
    return [
        {
            "method": row.method,
            "n": row.n,
            "errors": row.errors,
            "level": row.level,
            "budget": _mean(r.report["budget"] for r in _scored(group)),
            "T_solving": row.solving_tokens,
            "T": row.tokens,
            "accuracy": row.accuracy,
            "E³": row.e3,
        }
        for group in grouped(records).values()
        for row in [_row(group)]
    ]


def budget_grid(records: Sequence[Record], figure: str = "e3") -> list[Cells]:
    """Lay a figure out by B_init (down) and B_per_level (across), for methods on a grid.

    Args:
        records: Answers of methods such as ``cosine[100+50L]``; others are left out.
        figure: A field of `Row`.
    """
    found: dict[tuple[str, str, str, int], dict[int, float | None]] = {}
    for (dataset, _, planner, method), row in summarize(records).items():
        if point := _GRID_POINT.fullmatch(method):
            line = found.setdefault((dataset, planner, point[1], int(point[2])), {})
            line[int(point[3])] = getattr(row, figure)
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


def budget_use(records: Sequence[Record]) -> tuple[Literal["step", "question"], list[BudgetUse]]:
    """Budgets and what was used of them: by step where that is known, else by question."""
    scored = _scored(records)
    steps = [
        BudgetUse(step["budget"], step["tokens"])
        for record in scored
        for step in record.report["steps"]
        if step["budget"] is not None and step["tokens"] is not None
    ]
    if steps:
        return "step", steps
    whole = [(record.report["budget"], record.solving_tokens) for record in scored]
    return "question", [BudgetUse(budget, used) for budget, used in whole if budget is not None]


def by_position(records: Sequence[Record]) -> list[tuple[int, int, float, float | None]]:
    """For the first step, the second …: how many, their mean budget, their mean tokens if known."""
    places: dict[int, list[tuple[int, int | None]]] = {}
    for record in _scored(records):
        for step in record.report["steps"]:
            if step["budget"] is not None:
                places.setdefault(step["index"], []).append((step["budget"], step["tokens"]))
    return [
        (place + 1, len(found), fmean(budget for budget, _ in found), _mean(t for _, t in found))
        for place, found in sorted(places.items())
    ]


def mean_parts(records: Sequence[Record]) -> dict[str, float]:
    """Mean completion tokens per scored answer, by part (`PARTS`); they add up to T."""
    split = [_parts(record) for record in _scored(records)]
    names = dict.fromkeys([*PARTS, *(name for parts in split for name in parts)])
    means = {name: fmean(parts[name] for parts in split) for name in names if split}
    return {name: mean for name, mean in means.items() if mean}


def _row(group: Sequence[Record]) -> Row:
    first, scored = group[0], _scored(group)
    scores = [record.score or 0.0 for record in scored]
    sources = {record.level_source for record in group} - {None}
    boxed = [r.score_metadata["boxed"] for r in scored if "boxed" in r.score_metadata]
    return Row(
        dataset=first.dataset,
        method=first.method,
        model=first.model,
        planner=first.planner,
        n=len(scored),
        errors=len(group) - len(scored),
        accuracy=100 * fmean(scores) if scores else None,
        tokens=_mean(record.tokens for record in scored),
        solving_tokens=_mean(record.solving_tokens for record in scored),
        e3_with_errors=e3([r.score or 0.0 for r in group], [r.tokens for r in group])
        if any(record.tokens for record in group)
        else None,
        seconds=_mean(record.report["usage"]["seconds"] for record in scored),
        measured=all(record.report["usage"]["measured"] for record in group),
        questions=len({record.question for record in scored}),
        level="label" if "label" in sources else "estimated" if sources else None,
        unboxed=1 - fmean(boxed) if boxed else None,
        rates=_rates(scored),
        **_spread(scored, scores),
    )


def _spread(scored: Sequence[Record], scores: Sequence[float]) -> dict[str, Any]:
    """E³, A/T, the intervals, and the spread over epochs; nothing where no token was spent."""
    tokens, clusters = [r.tokens for r in scored], [r.question for r in scored]
    if not any(tokens):
        return dict.fromkeys(("e3", "e3_lower", "e3_upper", "a_over_t"))
    e3_of, runs = interval(scores, tokens, clusters=clusters), {r.epoch for r in scored}
    spread: dict[str, Any] = {
        "e3": e3_of.e3,
        "e3_lower": e3_of.lower,
        "e3_upper": e3_of.upper,
        "a_over_t": a_over_t(scores, tokens),
        "runs": len(runs),
    }
    ends = accuracy_interval(scores, clusters=clusters)
    spread |= dict(zip(("accuracy_lower", "accuracy_upper"), ends, strict=True))
    cost = token_interval(tokens, clusters=clusters)
    spread |= dict(zip(("tokens_lower", "tokens_upper"), cost, strict=True))
    if len(runs) > 1:
        with suppress(InputError):  # a run without a token has no E³
            over = over_runs(scores, tokens, [record.epoch for record in scored])
            spread |= {name: getattr(over, name) for name in ("accuracy_sd", "tokens_sd", "e3_sd")}
    return spread


def _rates(scored: Sequence[Record]) -> dict[str, float] | None:
    """TravelPlanner's rates, where its scorer says of every answer what passed."""
    said = [record.score_metadata for record in scored]
    whole = bool(said) and all(metadata.keys() >= _JUDGED for metadata in said)
    return asdict(rates(said)) if whole else None


def _estimates(group: Sequence[Record]) -> Cells:
    pairs = np.array([(record.report["level"], record.level) for record in group], dtype=float)
    error = pairs[:, 0] - pairs[:, 1]
    nodes = [record.report["usage"]["by_node"].get("estimate") for record in group]
    return {
        "dataset": group[0].dataset,
        "planner": group[0].planner,
        "method": group[0].method,
        "n": len(group),
        "agreement_%": 100 * float(np.mean(error == 0)),
        "mean_error": float(error.mean()),
        "mean_absolute_error": float(np.abs(error).mean()),
        "rank_correlation": _spearman(pairs),
        "estimate_T": _mean(node["output_tokens"] for node in nodes if node),
    }


def _spearman(pairs: np.ndarray[Any, np.dtype[np.float64]]) -> float | None:
    """Rank correlation, ties by their mean rank; None where one side does not vary."""
    if any(len(set(column)) < 2 for column in pairs.T):  # noqa: PLR2004
        return None
    ranks = [[np.mean(column < v) + np.mean(column <= v) for v in column] for column in pairs.T]
    return float(np.corrcoef(ranks)[0, 1])


def _latency(group: Sequence[Record]) -> Cells:
    total = fmean(record.report["usage"]["seconds"] for record in group)
    planning = fmean(planning_seconds(record.report) for record in group)
    nodes = [record.report["usage"]["by_node"] for record in group]
    plan, estimate = (
        fmean(parts[node]["seconds"] if node in parts else 0.0 for parts in nodes)
        for node in ("plan", "estimate")
    )
    return {
        "dataset": group[0].dataset,
        "planner": group[0].planner,
        "method": group[0].method,
        "n": len(group),
        "plan_s": plan,
        "estimate_s": estimate,
        "solving_s": total - planning,
        "total_s": total,
        "planning_%": 100 * planning / total if total else None,
    }


def _parts(record: Record) -> Counter[str]:
    """Tokens by node; those of steps that were cut off, forced or lost are told apart."""
    by_node = record.report["usage"]["by_node"]
    parts = Counter({node: usage["output_tokens"] for node, usage in by_node.items()})
    for ending in ("length", "forced", "error"):
        tokens = sum(s["tokens"] or 0 for s in record.report["steps"] if s["finish"] == ending)
        moved = min(tokens, parts["solve"])
        if moved:
            parts[f"solve {ending}"] = moved
            parts["solve"] -= moved
    return parts


def _scored(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.score is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _last(key: tuple[Any, ...]) -> tuple[bool, int]:
    """Sort by the level, the last of a key; questions without one come last."""
    return key[-1] is None, key[-1] or 0
