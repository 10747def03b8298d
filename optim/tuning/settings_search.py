"""Searches the settings for E³: many complete settings on a few questions, the better half on more.

Successive halving. The first rung asks `FIRST` questions of the original, the methods without a
plan and a balanced set of complete settings, in which every dimension takes its other values in
half of the cases. Each rung keeps the better half, by E³ smoothed for few answers, and doubles the
questions until they are all of dev. Because the set is balanced, what one value of one dimension
is worth can be estimated from all answers at once (a ridge regression of log E³), and the best
settings by that estimate that were not tried yet join each further rung.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import TypeIs

from optim.datasets.loading import sample
from optim.evaluation.limits import BudgetSpentError
from optim.tuning.evaluator import OutageError
from optim.tuning.optimizer import NOT_ANSWERED, NOT_MEASURED, Round, optimizer
from optim.tuning.selection import Measurement
from pb_graph.budget.rules import BudgetRule, Fixed, LevelTable, PerLevel
from pb_graph.settings import PLANNED, Settings, choices

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.tuning.candidate import Candidate

FIRST = 5  # questions of the first rung
MOST = 200  # settings in it
_JOINING = 0.25  # share of a further rung that is predicted rather than kept
_RIDGE = 2.0  # of the regression, in settings' worth of first-rung answers
_NOTHING = 1e-9

REFERENCES = ("vanilla", "global_budget")
"""Methods without a plan. They are raced like any others, and may win."""

_STEPS = (-4, -3, -2, -1, 1, 2, 3, 4)  # half powers of two: a quarter to four times the budget
DIMENSIONS: dict[str, tuple[Any, ...]] = {
    "schedule": choices("schedule"),
    "shape": ("usual", "lower", "higher"),
    "budget": (0, *_STEPS),
    "execution": choices("execution"),
    "planning": choices("planning"),
    "enforcement": choices("enforcement"),
    "prompt_unit": ("tokens", "words"),
}
"""What is searched: values by dimension; the budget as k of a factor 2^(k/2) to all its levels,
the shape as the base's or another value of the one number that bears on the schedule."""

# The one number that bears on a schedule, and a lower and a higher value of it.
_SHAPES: dict[str, tuple[str, float, float]] = {
    "polynomial": ("power", 1.0, 3.0),
    "exponential": ("gamma", 0.7, 0.97),
    "cosine": ("epsilon", 0.02, 0.5),
}

Point = dict[str, Any]
"""A value for each dimension."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How far a number of answers goes.

    Attributes:
        settings: How many settings the first rung has, original and references among them.
        rungs: Questions of each rung; the last is all of dev.
    """

    settings: int
    rungs: Sequence[int]

    @classmethod
    def of(cls, questions: int, calls: int, most: int = MOST) -> Plan:
        """The widest first rung that the answers pay for; the original's own are among them."""
        doubled = itertools.takewhile(
            lambda count: count < questions, (FIRST * 2**k for k in itertools.count())
        )
        rungs = [*doubled, questions]
        fitting = (
            n for n in range(most, 1, -1) if cls(n, rungs).answers() <= max(0, calls - questions)
        )
        return cls(next(fitting, 2), rungs)

    def kept(self, rung: int) -> int:
        """How many settings a rung has, the original aside."""
        return max(1, math.ceil((self.settings - 1) / (1 << rung)))

    def joining(self, rung: int) -> int:
        """How many of them are predicted from the rungs before."""
        return int(_JOINING * self.kept(rung)) if rung else 0

    def answers(self) -> int:
        """What all rungs cost beside the original's answers."""
        total, before = 0, 0
        for rung, count in enumerate(self.rungs):
            joining = self.joining(rung)
            total += (self.kept(rung) - joining) * (count - before) + joining * count
            before = count
        return total


def _forecast(questions: int, calls: int, original: Candidate, seed: int, most: int = MOST) -> str:
    """What the answers will reach, and what they will not."""
    plan = Plan.of(questions, calls, most)
    entered = first_rung(original.settings, plan, seed)
    text = (
        f"{len(entered)} settings on {plan.rungs[0]} questions each, the better half on more, up "
        f"to {plan.rungs[-1]}."
    )
    # Of a budget it is said how many times the original's it is.
    said: dict[str, Callable[[Any], str]] = {"budget": lambda k: f"{2.0 ** (k / 2):.2g} times"}
    lacking = [
        f"{name} {', '.join(map(said.get(name, str), left))}"
        for name, values in DIMENSIONS.items()
        if (left := [one for one in values if all(p is None or p[name] != one for _, p in entered)])
    ]
    methods = {settings.method for settings, _ in entered}
    lacking += [f"method {name}" for name in REFERENCES if name not in methods]
    if lacking:
        text += f" This budget does not reach: {'; '.join(lacking)}. A higher one would."
    return text


@optimizer(
    "settings",
    "searches the settings by successive halving",
    once=True,
    tunes="settings",
    forecast=_forecast,
)
def settings_search(task: Round, *, most: int = MOST) -> Sequence[Candidate]:
    """Give the settings that were measured on the whole of dev, the highest E³ first.

    With the same seed and the same answers the same settings come again, and those that were paid
    for cost nothing.

    Args:
        task: The round.
        most: Settings in the first rung, at most.
    """
    race = _Race(task, Plan.of(len(task.dev), task.calls, most))
    try:
        race.run()
    except (BudgetSpentError, OutageError):
        race.dropped_for_budget()
    ranked = sorted(race.complete, key=lambda pair: -pair[1].e3)
    return [candidate for candidate, _ in ranked]


@dataclass(slots=True)
class _Entry:
    """A setting in the race; without a point where it has no plan."""

    candidate: Candidate
    point: Point | None
    measurement: Measurement | None = None
    fallen: bool = False

    @property
    def rank(self) -> float:
        """Smoothed E³, higher is better."""
        return self.measurement.smoothed if self.measurement else -1.0


class _Race:
    """Measures settings rung by rung; each meets the questions of dev in the same drawn order."""

    def __init__(self, task: Round, plan: Plan) -> None:
        self._task, self._plan = task, plan
        self._questions: Sequence[Question] = sample(task.dev, len(task.dev), task.seed)
        self._entries: dict[str, _Entry] = {}
        entered = first_rung(task.incumbent.settings, plan, task.seed)
        self._original, *_ = [self._enter(settings, point) for settings, point in entered]

    @property
    def complete(self) -> list[tuple[Candidate, Measurement]]:
        """Those that met every question."""
        return [
            (one.candidate, one.measurement)
            for one in self._entries.values()
            if self._is_whole(one.measurement)
        ]

    def run(self) -> None:
        """Go up the rungs."""
        self._extend(self._original, len(self._questions))
        racing = [one for one in self._entries.values() if one is not self._original]
        for rung, count in enumerate(self._plan.rungs):
            if rung:
                joining = list(self._predicted(self._plan.joining(rung)))
                racing = [*self._better(racing, self._plan.kept(rung) - len(joining)), *joining]
            for entry in racing:
                self._extend(entry, count)
            racing = [entry for entry in racing if not entry.fallen]

    def dropped_for_budget(self) -> None:
        """Note those that the spent budget has kept from the whole of dev."""
        for entry in self._entries.values():
            if not entry.fallen and not self._is_whole(entry.measurement):
                self._task.drop(entry.candidate, NOT_MEASURED, entry.measurement)

    def _is_whole(self, measurement: Measurement | None) -> TypeIs[Measurement]:
        return measurement is not None and len(measurement.results) == len(self._questions)

    def _enter(self, settings: Settings, point: Point | None) -> _Entry:
        candidate = replace(self._task.incumbent, settings=settings)
        return self._entries.setdefault(candidate.identity, _Entry(candidate, point))

    def _extend(self, entry: _Entry, count: int) -> None:
        results = list(entry.measurement.results) if entry.measurement else []
        fresh = self._questions[len(results) : count]
        try:
            results += self._task.evaluator.measure(entry.candidate, fresh)
        except OutageError:
            if self._task.refused:
                raise
            self._task.drop(entry.candidate, NOT_ANSWERED, entry.measurement)
            entry.fallen = True
            return
        entry.measurement = Measurement(results)

    def _better(self, racing: Sequence[_Entry], count: int) -> list[_Entry]:
        ranked = sorted(racing, key=lambda entry: -entry.rank)
        for entry in ranked[count:]:
            assert entry.measurement is not None  # noqa: S101 -- the rung has measured it
            asked = len(entry.measurement.results)
            why = f"lost on its first {asked} questions to better settings"
            self._task.drop(entry.candidate, why, entry.measurement)
            entry.fallen = True
        return ranked[:count]

    def _predicted(self, count: int) -> Iterator[_Entry]:
        """The best settings not tried yet, by what each value was worth so far."""
        base = self._task.incumbent.settings
        known = [one for one in self._entries.values() if one.point and one.measurement]
        if not count or not known:
            return
        every = itertools.product(*DIMENSIONS.values())
        points = [dict(zip(DIMENSIONS, values, strict=True)) for values in every]
        worth = _worth(known, points)
        for place in np.argsort(-worth, kind="stable"):
            settings = settings_at(base, points[place])
            if replace(self._task.incumbent, settings=settings).identity not in self._entries:
                yield self._enter(settings, points[place])
                count -= 1
            if not count:
                return


def _worth(entries: Sequence[_Entry], points: Sequence[Point]) -> np.ndarray[Any, Any]:
    """What log E³ to expect at points, relative to the mean, of settings measured at others.

    A ridge regression on what each value of each dimension adds, weighted by the answers.
    """
    rows = np.array([_features(one.point) for one in entries if one.point])
    ranks = np.array([math.log(max(one.rank, _NOTHING)) for one in entries])
    answers = [len(one.measurement.results) for one in entries if one.measurement]
    # A setting that was charged nothing has failed throughout: it says nothing of its values.
    weights = np.where(ranks > math.log(_NOTHING), np.array(answers) / FIRST, 0.0)
    mean = (weights * ranks).sum() / max(weights.sum(), _NOTHING)
    gram = rows.T @ (weights[:, None] * rows) + _RIDGE * np.eye(rows.shape[1])
    effects = np.linalg.solve(gram, rows.T @ (weights * (ranks - mean)))
    return np.array([_features(point) for point in points]) @ effects


def _features(point: Point) -> list[float]:
    """One column a value; of the budget its step and the square, as its worth is smooth."""
    step = point["budget"] / max(_STEPS)
    values = [
        float(point[name] == value)
        for name, choices in DIMENSIONS.items()
        if name not in {"budget", "shape"}
        for value in choices
    ]
    return [step, step * step, *values]


def first_rung(base: Settings, plan: Plan, seed: int) -> list[tuple[Settings, Point | None]]:
    """The original, the methods without a plan, and a balanced set of settings around it."""
    own = point_of(base)
    chosen: dict[str, tuple[Settings, Point | None]] = {}

    def enter(settings: Settings, point: Point | None) -> None:
        chosen.setdefault(settings.model_dump_json(), (settings, point))

    enter(base, own if base.has_plan else None)
    for name in REFERENCES:
        enter(_changed(base, {"method": name}), None)
    enter(settings_at(base, own), own)
    for point in itertools.islice(design(own, plan.settings - len(chosen), seed), 10 * MOST):
        if len(chosen) >= plan.settings:
            break
        enter(settings_at(base, point), point)
    return list(chosen.values())[: plan.settings]


def design(own: Point, count: int, seed: int) -> Iterator[Point]:
    """Points that leave each dimension as it was in half of the cases, and else vary it evenly.

    Args:
        own: The original's.
        count: How many make a balanced set; more follow, as some may come to the same settings.
        seed: Of the draw.
    """
    draw = random.Random(seed)  # noqa: S311 -- a draw, not a secret
    size = max(2, count)
    while True:
        columns = {}
        for name, values in DIMENSIONS.items():
            others = [value for value in values if value != own[name]]
            draw.shuffle(others)
            changed = itertools.islice(itertools.cycle(others), (size + 1) // 2)
            columns[name] = [*changed, *[own[name]] * (size // 2)]
            draw.shuffle(columns[name])
        rows = zip(*columns.values(), strict=True)
        yield from (dict(zip(columns, row, strict=True)) for row in rows)


def point_of(base: Settings) -> Point:
    """Where settings stand; the budget is their own."""
    fixed = {"budget": 0, "shape": "usual"}
    return {name: fixed.get(name, getattr(base, name, None)) for name in DIMENSIONS}


def settings_at(base: Settings, point: Point) -> Settings:
    """Plan-and-budget at a point; whatever is not searched stays as in the base."""
    changes = {name: value for name, value in point.items() if name not in {"budget", "shape"}}
    if point["schedule"] in _SHAPES and point["shape"] != "usual":
        name, lower, higher = _SHAPES[point["schedule"]]
        changes[name] = higher if point["shape"] == "higher" else lower
    if point["budget"]:
        changes["budget"] = scaled(base.budget_rule, 2.0 ** (point["budget"] / 2))
    return _changed(base, {"method": PLANNED} | changes)


def scaled(rule: BudgetRule, factor: float) -> BudgetRule:
    """A rule that grants so many times as much, in whole tokens and at least one."""

    def times(tokens: int) -> int:
        return max(1, round(tokens * factor)) if tokens else 0

    if isinstance(rule, LevelTable):
        return LevelTable(tokens={level: times(tokens) for level, tokens in rule.tokens.items()})
    if isinstance(rule, PerLevel):
        return PerLevel(initial=times(rule.initial), per_level=times(rule.per_level))
    return Fixed(tokens=times(rule.tokens))


def _changed(base: Settings, changes: dict[str, Any]) -> Settings:
    return Settings.model_validate(dict(base) | changes)
