"""Search settings by successive halving: many on a few questions, the better half on more.

The first rung asks `FIRST` questions of the methods without a plan and of settings around the
original: each choice takes another value in half of them. Each rung keeps the better half, by E³
smoothed for few answers, and doubles the questions up to all of dev.
"""

from __future__ import annotations

import math
import random
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optim.datasets.questions import sample
from optim.e3 import smoothed_e3
from optim.tuning.evaluator import OutageError, SearchEndedError
from optim.tuning.verdict import Trial
from pb_graph.budget.rules import LEVELS, BudgetRule, LevelTable
from pb_graph.settings import PLANNED, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.tuning.optimizers import OptimizerTask
    from optim.tuning.program import Candidate

FIRST = 5  # questions of the first rung
MOST = 200  # settings in it

REFERENCES = ("vanilla", "global_budget")
"""Methods without a plan. They are raced like any other settings, and may win."""

DIMENSIONS: dict[str, Sequence[Any]] = {
    "plan_from": (None, 1, 3, 4, 5),
    "schedule": (
        "uniform",
        "weighted",
        "linear",
        "polynomial",
        "exponential",
        "cosine",
        "bam",
        {"name": "polynomial", "power": 3},
        {"name": "exponential", "gamma": 0.7},
    ),
    "budget": (-4, -3, -2, -1, 1, 2, 3, 4),
    "execution": ("single_pass", "stepwise"),
    "planning": ("two_call", "fused"),
    "enforcement": ("prompt", "force"),
    "reserve": (0, 48),
}
"""Values by dimension; the budget as k of a factor 2^(k/2) on all its levels."""


def halving(task: OptimizerTask) -> list[Candidate]:
    """Return the settings that were measured on the whole of dev.

    The same seed and answers lead to the same settings, and paid answers cost nothing.
    """
    seed = task.evaluator.options.seed
    questions = sample(task.dev, len(task.dev), seed)
    counts = [*(FIRST << k for k in range(16) if FIRST << k < len(questions)), len(questions)]
    width = width_of(counts, task.evaluator.limit - len(questions))  # the original met all of dev
    base, domains = task.incumbent.settings, {question.domain for question in task.dev}
    rule = (base.for_domain(*domains) if len(domains) == 1 else base).budget_rule
    variants = _settings_around(base, rule, width, seed)
    racing = [
        Trial(replace(task.incumbent, settings=each), (), cost=task.evaluator.options.cost)
        for each in variants
    ]
    with suppress(SearchEndedError):
        for rung, count in enumerate(counts):
            racing = sorted(racing, key=_rank, reverse=True)[: math.ceil(width / 2**rung)]
            for number, trial in enumerate(racing):
                with suppress(OutageError):  # the server may refuse these settings
                    records = task.evaluator.measure(trial.candidate, questions[:count])
                    racing[number] = replace(trial, records=records)
            racing = [trial for trial in racing if len(trial.records) == count]
    return [trial.candidate for trial in racing if len(trial.records) == len(questions)]


def _rank(trial: Trial) -> float:
    """Return E³ with half a right and half a wrong answer added, to rank by few answers."""
    return smoothed_e3(trial.scores, trial.costs) if any(trial.costs) else 0.0


def width_of(counts: list[int], answers: int) -> int:
    """Return the number of settings that the answers allow in the first rung."""
    new = [count - last for last, count in zip([0, *counts], counts, strict=False)]
    for width in range(MOST, 1, -1):
        if sum(math.ceil(width / 2**rung) * size for rung, size in enumerate(new)) <= answers:
            return width
    return 1


def _settings_around(
    base: Settings, rule: BudgetRule | int, count: int, seed: int
) -> list[Settings]:
    """Return the methods without a plan, no planning, and random settings around a base."""
    rng = random.Random(seed)  # noqa: S311 -- no secret
    variants = [_changed(base, {"method": name}) for name in (*REFERENCES, PLANNED)]
    variants.append(_changed(base, {"method": PLANNED, "plan_from": None}))
    for _ in range(20 * count):  # some draws come to the same settings
        point = {name: rng.choice(DIMENSIONS[name]) for name in DIMENSIONS if rng.getrandbits(1)}
        if "budget" in point:
            point["budget"] = _scale_budget(rule, 2.0 ** (point["budget"] / 2))
        variants.append(_changed(base, {"method": PLANNED} | point))
    different = {new.model_dump_json(): new for new in variants if new != base}
    return list(different.values())[:count]


def _scale_budget(rule: BudgetRule | int, factor: float) -> BudgetRule | int:
    """Return a rule with ``factor`` times the tokens at every level, whole and at least one."""
    if isinstance(rule, int):
        return max(1, round(rule * factor))
    tokens = {level: max(1, round(rule.budget_for(level) * factor)) for level in LEVELS}
    return LevelTable(tokens=tokens)


def _changed(base: Settings, changes: dict[str, Any]) -> Settings:
    return base.merged_with(Settings.model_validate(changes))
