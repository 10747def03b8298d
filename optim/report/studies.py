"""What a report is about: per data set, solver and planner, its methods and their comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from optim.e3 import Comparison, Sample, compare
from optim.summary import Row, rows
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.records import Record

__all__ = ["Study", "Versus", "studies"]

_USUAL_BASELINES = ("global_budget", "vanilla")


@dataclass(frozen=True, slots=True)
class Versus:
    """A method against the baseline, on the questions that both have an answer to.

    Attributes:
        method: Its name.
        comparison: The paired statistics; None when they do not exist.
        adjusted_p: The p-value after Holm's correction over the methods of the study.
        gained: Questions on which the method scores higher.
        lost: Questions on which it scores lower.
        why_not: Why there is no comparison.
    """

    method: str
    comparison: Comparison | None
    adjusted_p: float | None
    gained: int
    lost: int
    why_not: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Study:
    """Methods that answered questions of one data set with one solver and one planner.

    Attributes:
        dataset: Name of the data set.
        model: Name of the model that solved.
        planner: Name of the model that planned.
        records: All answers, in the order in which they were read.
        rows: A row of figures for each method.
        baseline: What the others are compared with; None when there is nothing to compare.
        versus: The comparisons, a method each.
    """

    dataset: str
    model: str
    planner: str
    records: Sequence[Record]
    rows: Sequence[Row]
    baseline: str | None
    versus: Sequence[Versus]

    @property
    def methods(self) -> list[str]:
        """Names of the methods, in the order of the rows."""
        return [row.method for row in self.rows]

    @property
    def levels(self) -> list[int]:
        """The data set's labels of difficulty among the questions, easiest first."""
        return sorted({r.level for r in self.records if r.level is not None})

    @property
    def questions(self) -> list[str]:
        """Ids of all questions, easiest first, else in order of first appearance."""
        first = {record.question: record.level or 0 for record in reversed(self.records)}
        order = dict.fromkeys(record.question for record in self.records)
        return sorted(order, key=lambda question: first[question])

    def of(self, method: str) -> list[Record]:
        """The answers of a method."""
        return [record for record in self.records if record.method == method]

    def incomplete(self) -> dict[str, int]:
        """How many of the study's questions a method has not been asked, where it is any."""
        total = len(self.questions)
        missing = {m: total - len({r.question for r in self.of(m)}) for m in self.methods}
        return {method: number for method, number in missing.items() if number}


def studies(records: Sequence[Record], baseline: str | None = None) -> list[Study]:
    """Sort records into studies, and compare the methods of each with its baseline.

    Args:
        records: As `optim.records.read_records` gives them.
        baseline: Method to compare with; None takes global_budget, else vanilla, else the first.

    Raises:
        InputError: No records, or no method of that name.
    """
    if not records:
        msg = "there is no answer to report on yet"
        raise InputError(msg)
    methods = dict.fromkeys(record.method for record in records)
    if baseline is not None and baseline not in methods:
        msg = f"no baseline named {baseline!r}; there are: {', '.join(methods)}"
        raise InputError(msg)
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.dataset, record.model, record.planner), []).append(record)
    return [_study(*key, group, baseline) for key, group in groups.items()]


def _study(
    dataset: str, model: str, planner: str, records: Sequence[Record], wanted: str | None
) -> Study:
    summary = rows(records)
    baseline = _baseline([row.method for row in summary], wanted)
    others = [row.method for row in summary if baseline and row.method != baseline]
    versus = [_versus(records, method, baseline or "") for method in others]
    return Study(dataset, model, planner, records, summary, baseline, _adjusted(versus))


def _baseline(methods: Sequence[str], wanted: str | None) -> str | None:
    if wanted is not None:
        return wanted if wanted in methods else None
    if len(methods) == 1:
        return None
    return next((name for name in _USUAL_BASELINES if name in methods), methods[0])


def _versus(records: Sequence[Record], method: str, baseline: str) -> Versus:
    ours, theirs = _samples(records, method), _samples(records, baseline)
    gained, lost = _gained_and_lost(ours, theirs)
    try:
        found = compare(ours, theirs, missing="drop")
    except InputError as error:
        return Versus(method, None, None, gained, lost, str(error))
    return Versus(method, found, None, gained, lost)


def _samples(records: Sequence[Record], method: str) -> list[Sample]:
    return [
        Sample(record.question, record.score, record.tokens)
        for record in records
        if record.method == method and record.score is not None
    ]


def _gained_and_lost(ours: Sequence[Sample], theirs: Sequence[Sample]) -> tuple[int, int]:
    mine, other = _mean_scores(ours), _mean_scores(theirs)
    differences = [mine[question] - other[question] for question in mine.keys() & other.keys()]
    return sum(d > 0 for d in differences), sum(d < 0 for d in differences)


def _mean_scores(samples: Sequence[Sample]) -> dict[str, float]:
    scores: dict[str, list[float]] = {}
    for sample in samples:
        scores.setdefault(sample.question, []).append(sample.score)
    return {question: sum(values) / len(values) for question, values in scores.items()}


def _adjusted(versus: Sequence[Versus]) -> list[Versus]:
    """Correct the p-values for their number by Holm's method."""
    known = [
        (v.comparison.p_value, v.method)
        for v in versus
        if v.comparison is not None and v.comparison.p_value is not None
    ]
    adjusted: dict[str, float] = {}
    running = 0.0
    for place, (p, method) in enumerate(sorted(known)):
        running = max(running, min(1.0, p * (len(known) - place)))
        adjusted[method] = running
    return [
        Versus(v.method, v.comparison, adjusted.get(v.method), v.gained, v.lost, v.why_not)
        for v in versus
    ]
