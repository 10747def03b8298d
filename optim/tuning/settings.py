"""Search the settings by successive halving: many on a few questions, the better half on more.

The first rung asks `FIRST` questions of the original, the methods without a plan and a balanced
set of complete settings: each choice takes its other values in half of them. Each rung keeps the
better half, by E³ smoothed for few answers, and doubles the questions up to all of dev.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from scipy.stats import qmc

from optim.datasets.loading import sample
from optim.tuning.evaluator import BudgetSpentError, OutageError
from optim.tuning.verdict import Trial
from pb_graph.budget.rules import BudgetRule, Fixed, LevelTable, PerLevel
from pb_graph.settings import PLANNED, Settings, choices

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.tuning.optimizers import OptimizerTask
    from optim.tuning.program import Candidate

FIRST = 5  # questions of the first rung
MOST = 200  # settings in it

REFERENCES = ("vanilla", "global_budget")
"""Methods without a plan. They are raced like any other settings, and may win."""

DIMENSIONS: dict[str, tuple[Any, ...]] = {
    "schedule": choices("schedule"),
    "budget": (0, -4, -3, -2, -1, 1, 2, 3, 4),
    "execution": choices("execution"),
    "planning": choices("planning"),
    "enforcement": choices("enforcement"),
    "prompt_unit": ("tokens", "words"),
}
"""Values by dimension; the budget as k of a factor 2^(k/2) on all its levels."""


def search_settings(task: OptimizerTask, *, most: int = MOST) -> list[Candidate]:
    """Return the settings that were measured on the whole of dev, the highest E³ first.

    The same seed and answers lead to the same settings, and paid answers cost nothing.

    Args:
        task: The round.
        most: The most settings in the first rung.
    """
    rungs = rungs_of(len(task.dev), task.answers, most)
    questions = sample(task.dev, len(task.dev), task.seed)
    entered = first_rung(task.incumbent.settings, 1 + rungs[0][0], task.seed)
    original, *racing = [Trial(replace(task.incumbent, settings=each), ()) for each in entered]
    with suppress(BudgetSpentError, OutageError):
        original = _extended(task, original, questions) or original
        for kept, asked in rungs:
            ranked, racing = sorted(racing, key=lambda trial: -trial.smoothed)[:kept], []
            for trial in ranked:
                if extended := _extended(task, trial, questions[:asked]):
                    racing.append(extended)
    whole = [trial for trial in (original, *racing) if len(trial.results) == len(questions)]
    return [trial.candidate for trial in sorted(whole, key=lambda trial: -trial.e3)]


def _extended(task: OptimizerTask, trial: Trial, questions: Sequence[Question]) -> Trial | None:
    """Return a trial on more questions; None if a server refuses one under these settings."""
    try:
        new = task.evaluator.measure(trial.candidate, questions[len(trial.results) :])
    except OutageError:
        if task.is_refused:
            raise
        return None
    return replace(trial, results=[*trial.results, *new])


def rungs_of(questions: int, answers: int, most: int = MOST) -> list[tuple[int, int]]:
    """Return the settings beside the original, and the questions, of each rung.

    Args:
        questions: Of dev; the last rung asks them all.
        answers: Answers that the rungs may take, those of the original included.
        most: The most settings in the first rung, the original included.
    """
    counts = [*(FIRST << k for k in range(16) if FIRST << k < questions), questions]
    for width in range(most - 1, 0, -1):
        rungs = [(math.ceil(width / (1 << k)), count) for k, count in enumerate(counts)]
        new = zip(rungs, [0, *counts], strict=False)
        if sum(kept * (count - past) for (kept, count), past in new) <= answers - questions:
            return rungs
    return [(1, count) for count in counts]


def first_rung(base: Settings, count: int, seed: int) -> list[Settings]:
    """Return the original, the methods without a plan, and a balanced set of settings around it."""
    own = {name: 0 if name == "budget" else getattr(base, name) for name in DIMENSIONS}
    entered = [base, *(_changed(base, {"method": name}) for name in REFERENCES)]
    chosen = {one.model_dump_json(): one for one in (*entered, settings_at(base, own))}
    for point in islice(design(own, count - len(chosen), seed), 10 * MOST):
        if len(chosen) >= count:
            break
        settings = settings_at(base, point)
        chosen.setdefault(settings.model_dump_json(), settings)
    return list(chosen.values())[:count]


def design(own: dict[str, Any], count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield points that leave each dimension alone in half of the cases, and else vary it evenly.

    Args:
        own: The original's value of each dimension.
        count: Size of a balanced set; more sets follow, as points may come to the same settings.
        seed: Of the draw.
    """
    cube = qmc.LatinHypercube(len(DIMENSIONS), rng=seed)
    values = {
        name: (own[name], [value for value in every if value != own[name]])
        for name, every in DIMENSIONS.items()
    }
    while True:
        for row in 2 * cube.random(max(2, count)):  # below 1: its own value
            places = zip(row, values.items(), strict=True)
            yield {
                name: others[int((at - 1) * len(others))] if at >= 1 else mine
                for at, (name, (mine, others)) in places
            }


def settings_at(base: Settings, point: dict[str, Any]) -> Settings:
    """Return plan-and-budget at a point; what is not searched stays as in the base."""
    changes = {name: value for name, value in point.items() if name != "budget"}
    if point["budget"]:
        changes["budget"] = scale_budget(base.budget_rule, 2.0 ** (point["budget"] / 2))
    return _changed(base, {"method": PLANNED} | changes)


def scale_budget(rule: BudgetRule, factor: float) -> BudgetRule:
    """Return a rule with ``factor`` times the tokens, whole and at least one."""

    def times(tokens: int) -> int:
        return max(1, round(tokens * factor)) if tokens else 0

    if isinstance(rule, LevelTable):
        return LevelTable(tokens={level: times(tokens) for level, tokens in rule.tokens.items()})
    if isinstance(rule, PerLevel):
        return PerLevel(initial=times(rule.initial), per_level=times(rule.per_level))
    return Fixed(tokens=times(rule.tokens))


def _changed(base: Settings, changes: dict[str, Any]) -> Settings:
    return Settings.model_validate(dict(base) | changes)
