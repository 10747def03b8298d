"""Accuracy against budget from one long answer per question: what `pb-optim curve` found.

The records are those of `optim.evaluation.curve.curve_methods`. Points of one curve share long
answers, so they rise and fall together: the difference of two points is better known than their
intervals say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from optim.e3 import Comparison, Sample, compare, smoothed_e3
from optim.evaluation.curve import CURVE, curve_name
from optim.methods import ENDING
from optim.records import level_of, planning_tokens
from optim.statistics.estimates import PERCENT
from optim.summary import Row, grouped, samples, scored, summarize
from pb_graph.budget import LEVELS
from pb_graph.budget.rules import LevelTable
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.records import Record

_FEW = 10  # questions of a level below which all levels choose its total


@dataclass(frozen=True, slots=True)
class Point:
    """A method within one budget of completion tokens; ``cut`` is the share of cut answers."""

    budget: int
    row: Row
    cut: float


@dataclass(frozen=True, slots=True)
class LevelTotal:
    """The budget that a level's answers choose.

    Attributes:
        level: From 1 to 5.
        questions: How many of this level.
        budget: The choice.
        own: Whether this level's questions chose it; they were too few else, and all did.
        accuracy: At this budget, of those who chose, in percent.
        tokens: Mean tokens likewise.
    """

    level: int
    questions: int
    budget: int
    own: bool
    accuracy: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Check:
    """A point of the curve against a run of its own.

    Attributes:
        budget: Of both.
        kind: ``separate`` for the same request with a real cap, ``told`` where the model was told
            the budget beforehand.
        accuracy: Of that run, in percent, on what it has answered.
        comparison: Of the curve (a) with that run (b), paired by question.
    """

    budget: int
    kind: str
    accuracy: float
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class BudgetCurve:
    """The whole of it.

    Attributes:
        dataset: Name of the data set.
        method: Name of the method.
        model: Who solved.
        points: By budget, from small to large.
        levels: The totals by level; none where no answer is right at any budget.
        share: What they keep of the accuracy, from 0 to 1; None where they are best by E³.
        paid: Completion tokens that the curve's scored answers cost.
        apart: What a run for each budget would have cost; plans are shared in both.
        checks: Against runs of their own.
    """

    dataset: str
    method: str
    model: str
    points: Sequence[Point]
    levels: Sequence[LevelTotal]
    share: float | None
    paid: int
    apart: int
    checks: Sequence[Check]

    @property
    def totals(self) -> LevelTable | None:
        """The totals as a rule that settings take."""
        chosen = {total.level: total.budget for total in self.levels}
        return LevelTable(tokens=chosen) if chosen else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        totals = self.totals
        return asdict(self) | {"totals": totals and totals.model_dump(mode="json")}


def curve_of(records: Sequence[Record], method: str, share: float | None = None) -> BudgetCurve:
    """Read a curve out of records.

    Args:
        records: Of one data set, solver and planner; others than the curve's are left out.
        method: Name of the method.
        share: Of the accuracy at the largest budget, what a level's total has to keep; the smallest
            such is chosen. None chooses by E³ with half a right and half a wrong answer more, so
            that a few lucky answers do not decide.

    Raises:
        InputError: No scored answer of that curve, or a share outside (0, 1].
    """
    if share is not None and not 0.0 < share <= 1.0:
        msg = f"a share of the accuracy lies above 0 and at most at 100 percent, not {share:.0%}"
        raise InputError(msg)
    found = _by_kind(records, method)
    ours = found.get(CURVE, {})
    if not any(record.score is not None for group in ours.values() for record in group):
        msg = f"no answer of a curve of {method!r} has a score"
        raise InputError(msg)
    first = next(iter(ours.values()))[0]
    return BudgetCurve(
        dataset=first.dataset,
        method=method,
        model=first.model,
        points=[_point(budget, group) for budget, group in ours.items()],
        levels=list(_levels(ours, share)) if any(r.score for g in ours.values() for r in g) else [],
        share=share,
        **_cost(ours),
        checks=[
            _check(budget, kind, samples(ours[budget]), samples(group))
            for kind, groups in found.items()
            if kind != CURVE
            for budget, group in groups.items()
            if budget in ours and samples(group) and samples(ours[budget])
        ],
    )


def _check(budget: int, kind: str, ours: Sequence[Sample], theirs: Sequence[Sample]) -> Check:
    accuracy = PERCENT * fmean(sample.score for sample in theirs)
    return Check(budget, kind, accuracy, compare(ours, theirs, missing="drop"))


def _by_kind(records: Iterable[Record], method: str) -> dict[str, dict[int, list[Record]]]:
    """Records by kind of run and by budget, smallest first."""
    found: dict[str, dict[int, list[Record]]] = {}
    for (name,), group in grouped(records, ("method",)).items():
        said = curve_name(name)
        if said is not None and said.method == method:
            found.setdefault(said.kind, {})[said.budget] = group
    return {kind: dict(sorted(groups.items())) for kind, groups in found.items()}


def _point(budget: int, group: Sequence[Record]) -> Point:
    row, judged = next(iter(summarize(group).values())), scored(group)
    cut = sum(_ending(record) is not None for record in judged)
    return Point(budget, row, cut / len(judged) if judged else 0.0)


def _levels(ours: Mapping[int, Sequence[Record]], share: float | None) -> Iterable[LevelTotal]:
    everything = {budget: samples(group) for budget, group in ours.items()}
    for level in LEVELS:
        mine = {
            budget: samples([record for record in group if level_of(record) == level])
            for budget, group in ours.items()
        }
        questions = min(len({sample.question for sample in group}) for group in mine.values())
        own = questions >= _FEW
        voters = mine if own else everything
        chosen = _best(voters, share)
        votes = voters[chosen]
        accuracy = PERCENT * fmean(vote.score for vote in votes)
        tokens = fmean(vote.tokens for vote in votes)
        yield LevelTotal(level, questions, chosen, own, accuracy, tokens)


def _best(votes: Mapping[int, Sequence[Sample]], share: float | None) -> int:
    """The budget that these answers choose; of equal ones the smallest."""
    known = {budget: group for budget, group in votes.items() if group}
    if share is None:
        value = {
            budget: smoothed_e3([s.score for s in group], [s.tokens for s in group])
            for budget, group in known.items()
        }
        return max(value, key=lambda budget: value[budget])
    accuracy = {budget: sum(s.score for s in g) / len(g) for budget, g in known.items()}
    wanted = share * accuracy[max(accuracy)]
    return min(budget for budget, reached in accuracy.items() if reached >= wanted)


def _cost(ours: Mapping[int, Sequence[Record]]) -> dict[str, int]:
    """What the curve has cost, and what a run for each budget would have."""
    judged = [record for group in ours.values() for record in scored(group)]
    longest = scored(ours[max(ours)])
    planning = sum(planning_tokens(record.report) for record in longest)
    endings = sum(_ending(record) or 0 for record in judged)
    written = sum(record.solving_tokens - (_ending(record) or 0) for record in longest)
    solving = sum(record.solving_tokens for record in judged)
    return {"paid": planning + written + endings, "apart": planning + solving}


def _ending(record: Record) -> int | None:
    """Tokens of the request for the result; None where the answer was not cut."""
    usage = record.report["usage"]["by_node"].get(ENDING)
    return None if usage is None else usage["output_tokens"]
