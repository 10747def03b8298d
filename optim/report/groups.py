"""What a report is about: per data set, solver and planner, its methods and their comparison.

With the baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from optim.e3 import Comparison, compare, holm
from optim.summary import Row, grouped, rows, samples
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.records import Record

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
        adjusted_accuracy_p: The p-value of the accuracy alone, corrected likewise.
    """

    method: str
    comparison: Comparison | None
    adjusted_p: float | None
    gained: int
    lost: int
    why_not: str | None = None
    adjusted_accuracy_p: float | None = None

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

    def made_by(self) -> dict[str, Mapping[str, Any]]:
        """How each method's answers came about, as far as its log tells."""
        return {method: self.of(method)[0].made_by for method in self.methods}

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
    groups = grouped(records, ("dataset", "model", "planner"))
    return [_study(key, group, baseline) for key, group in groups.items()]


def _study(key: tuple[str, ...], records: Sequence[Record], wanted: str | None) -> Study:
    summary = rows(records)
    baseline = _baseline([row.method for row in summary], wanted)
    others = [row.method for row in summary if baseline and row.method != baseline]
    versus = [_versus(records, method, baseline or "") for method in others]
    dataset, model, planner = key
    return Study(dataset, model, planner, records, summary, baseline, _adjusted(versus))


def _baseline(methods: Sequence[str], wanted: str | None) -> str | None:
    if wanted is not None:
        return wanted if wanted in methods else None
    if len(methods) == 1:
        return None
    return next((name for name in _USUAL_BASELINES if name in methods), methods[0])


def _versus(records: Sequence[Record], method: str, baseline: str) -> Versus:
    ours, theirs = (
        samples(record for record in records if record.method == name)
        for name in (method, baseline)
    )
    try:
        found = compare(ours, theirs, missing="drop")
    except InputError as error:
        return Versus(method, None, None, 0, 0, str(error))
    return Versus(method, found, None, found.gained, found.lost)


def _adjusted(versus: Sequence[Versus]) -> list[Versus]:
    """Correct the p-values, of E³ and of accuracy, for their number by Holm's method."""
    known = {v.method: v.comparison for v in versus if v.comparison is not None}
    of_e3 = holm({m: c.p_value for m, c in known.items() if c.p_value is not None})
    of_accuracy = holm(
        {m: c.accuracy_p_value for m, c in known.items() if c.accuracy_p_value is not None}
    )
    return [
        replace(v, adjusted_p=of_e3.get(v.method), adjusted_accuracy_p=of_accuracy.get(v.method))
        for v in versus
    ]
