"""The figures of records by any grouping, what became of their budgets, and parts of their T."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from optim.e3 import Sample, a_over_t, accuracy_interval, e3, interval, over_runs, token_interval
from optim.scorers.travelplanner import Rates, rates
from optim.statistics.estimates import PERCENT
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.records import LevelSource, Record

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

BY_METHOD = ("dataset", "model", "planner", "method")
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
    records: Iterable[Record], by: Sequence[str] = BY_METHOD
) -> dict[tuple[Any, ...], list[Record]]:
    """Sort records by fields of theirs, in order of first appearance."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(getattr(record, name) for name in by), []).append(record)
    return groups


def summarize(
    records: Iterable[Record], by: Sequence[str] = BY_METHOD
) -> dict[tuple[Any, ...], Row]:
    """Sum up records by fields of theirs; a row names the first of what it is not grouped by."""
    return {key: _row(group) for key, group in grouped(records, by).items()}


def rows(records: Iterable[Record]) -> list[Row]:
    """Sum up records by data set, solver, planner and method, in order of first appearance."""
    return list(summarize(records).values())


def budget_use(records: Sequence[Record]) -> tuple[Literal["step", "question"], list[BudgetUse]]:
    """Budgets and what was used of them: by step where that is known, else by question."""
    judged = scored(records)
    steps = [
        BudgetUse(step["budget"], step["tokens"])
        for record in judged
        for step in record.report["steps"]
        if step["budget"] is not None and step["tokens"] is not None
    ]
    if steps:
        return "step", steps
    whole = [(record.report["budget"], record.solving_tokens) for record in judged]
    return "question", [BudgetUse(budget, used) for budget, used in whole if budget is not None]


def by_position(records: Sequence[Record]) -> list[tuple[int, int, float, float | None]]:
    """For the first step, the second …: how many, their mean budget, their mean tokens if known."""
    places: dict[int, list[tuple[int, int | None]]] = {}
    for record in scored(records):
        for step in record.report["steps"]:
            if step["budget"] is not None:
                places.setdefault(step["index"], []).append((step["budget"], step["tokens"]))
    return [
        (place + 1, len(found), fmean(budget for budget, _ in found), mean(t for _, t in found))
        for place, found in sorted(places.items())
    ]


def mean_parts(records: Sequence[Record]) -> dict[str, float]:
    """Mean completion tokens per scored answer, by part (`PARTS`); they add up to T."""
    split = [_parts(record) for record in scored(records)]
    names = dict.fromkeys([*PARTS, *(name for parts in split for name in parts)])
    means = {name: fmean(parts[name] for parts in split) for name in names if split}
    return {name: tokens for name, tokens in means.items() if tokens}


def _row(group: Sequence[Record]) -> Row:
    first, judged = group[0], scored(group)
    scores = [record.score or 0.0 for record in judged]
    sources = {record.level_source for record in group} - {None}
    said = [record.score_metadata for record in judged]
    boxed = [metadata["boxed"] for metadata in said if "boxed" in metadata]
    return Row(
        dataset=first.dataset,
        method=first.method,
        model=first.model,
        planner=first.planner,
        n=len(judged),
        errors=len(group) - len(judged),
        accuracy=PERCENT * fmean(scores) if scores else None,
        tokens=mean(record.tokens for record in judged),
        solving_tokens=mean(record.solving_tokens for record in judged),
        e3_with_errors=e3([r.score or 0.0 for r in group], [r.tokens for r in group])
        if any(record.tokens for record in group)
        else None,
        seconds=mean(record.report["usage"]["seconds"] for record in judged),
        measured=all(record.report["usage"]["measured"] for record in group),
        questions=len({record.question for record in judged}),
        level="label" if "label" in sources else "estimated" if sources else None,
        unboxed=1 - fmean(boxed) if boxed else None,
        rates=asdict(rates(said)) if said and all(one.keys() >= _JUDGED for one in said) else None,
        **_spread(judged, scores),
    )


def _spread(judged: Sequence[Record], scores: Sequence[float]) -> dict[str, Any]:
    """E³, A/T, the intervals, and the spread over epochs; nothing where no token was spent."""
    tokens, clusters = [r.tokens for r in judged], [r.question for r in judged]
    if not any(tokens):
        return dict.fromkeys(("e3", "e3_lower", "e3_upper", "a_over_t"))
    found, runs = interval(scores, tokens, clusters=clusters), [r.epoch for r in judged]
    spread: dict[str, Any] = {
        "e3": found.e3,
        "e3_lower": found.lower,
        "e3_upper": found.upper,
        "a_over_t": a_over_t(scores, tokens),
        "runs": len(set(runs)),
    }
    for name, ends in (
        ("accuracy", accuracy_interval(scores, clusters=clusters)),
        ("tokens", token_interval(tokens, clusters=clusters)),
    ):
        spread[f"{name}_lower"], spread[f"{name}_upper"] = ends
    with suppress(InputError):  # a run without a token has no E³
        over = over_runs(scores, tokens, runs)
        spread |= {name: getattr(over, name) for name in ("accuracy_sd", "tokens_sd", "e3_sd")}
    return spread


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


def scored(records: Iterable[Record]) -> list[Record]:
    """Those that have a score."""
    return [record for record in records if record.score is not None]


def samples(records: Iterable[Record]) -> list[Sample]:
    """The same for paired statistics."""
    return [Sample(r.question, r.score, r.tokens) for r in records if r.score is not None]


def mean(values: Iterable[float | None]) -> float | None:
    """Of the values that are known; None without any."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
