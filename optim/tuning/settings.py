"""Search settings: budgets by the ladder of caps, all else by successive halving.

One run of dev without a cap tells what every cap would give (`optim.reporting.caps`). Halving then
measures many settings on a few questions, and the better half on more.

The first rung asks `FIRST` questions of the methods without a plan and of settings around the
original: each choice takes another value in half of them. Each rung keeps the better half, by E³
smoothed for few answers, and doubles the questions up to all of dev.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, get_args

from optim.datasets.questions import sample
from optim.e3 import smoothed_e3
from optim.reporting.caps import cut, read_caps
from optim.tuning.evaluator import OutageError, SearchEndedError
from optim.tuning.optimizers import OptimizerTask
from optim.tuning.program import Candidate
from optim.tuning.search import Trial
from pb_graph.budget.allocation import ScheduleName
from pb_graph.errors import InputError
from pb_graph.settings import PLANNED, Settings

FIRST = 5  # questions of the first rung
MOST = 200  # settings in it

REFERENCES = ("vanilla", "global_budget")
"""Methods without a plan. They are raced like any other settings, and may win."""

DIMENSIONS: dict[str, Sequence[Any]] = {
    "plan_from": (None, 1, 3, 4, 5),
    "schedule": (
        *get_args(ScheduleName),
        "bam",
        {"name": "polynomial", "power": 3},
        {"name": "exponential", "gamma": 0.7},
    ),
    "execution": ("single_pass", "stepwise"),
    "planning": ("two_call", "fused"),
    "enforcement": ("prompt", "force"),
    "reserve": (0, 48),
}
"""Values by dimension. Budgets are those of the ladder."""


def halving(task: OptimizerTask) -> list[Candidate]:
    """Return the settings that were measured, or read off, on the whole of dev.

    The same seed and answers lead to the same settings, and paid answers cost nothing.
    """
    evaluator, seed = task.evaluator, task.evaluator.options.seed
    capped = read_ladder(task)
    questions = sample(task.dev, len(task.dev), seed)
    counts = [*(FIRST << k for k in range(16) if FIRST << k < len(questions)), len(questions)]
    new = [count - last for last, count in zip([0, *counts], counts, strict=False)]
    left = evaluator.limit - 2 * len(questions)  # the original and the uncapped met all of dev
    costs = {  # of all rungs, by the number of settings in the first
        width: sum(math.ceil(width / 2**rung) * size for rung, size in enumerate(new))
        for width in range(2, MOST + 1)
    }
    width = max((width for width, cost in costs.items() if cost <= left), default=1)
    budgets = [None, *(candidate.settings.budget for candidate in capped)]
    variants = _settings_around(task.incumbent.settings, budgets, width, seed)
    price = evaluator.prompt_price
    racing = [
        Trial(replace(task.incumbent, settings=each), (), prompt_price=price) for each in variants
    ]
    with suppress(SearchEndedError):
        for rung, count in enumerate(counts):
            racing = sorted(racing, key=_rank, reverse=True)[: math.ceil(width / 2**rung)]
            for number, trial in enumerate(racing):
                with suppress(OutageError):  # the server may refuse these settings
                    records = evaluator.measure(trial.candidate, questions[:count])
                    racing[number] = replace(trial, records=records)
            racing = [trial for trial in racing if len(trial.records) == count]
    measured = [trial.candidate for trial in racing if len(trial.records) == len(questions)]
    return [*capped, *measured]


def read_ladder(task: OptimizerTask) -> list[Candidate]:
    """Return the best cap in all, and by level, read off one run of dev without a cap.

    An answer below a cap is the same under it, so their answers are known without a call.
    """
    evaluator, base = task.evaluator, task.incumbent.settings
    changes = {"method": PLANNED, "plan_from": None, "reserve": 0, "budget": base.cutoff}
    uncapped = replace(task.incumbent, settings=_changed(base, changes))
    objective: Any = "money" if evaluator.prompt_price else "e3"
    try:
        records = evaluator.measure(uncapped, task.dev)
        ratio = evaluator.options.price_ratio
        caps = read_caps(records, objective=objective, loss=100.0, price_ratio=ratio)
    except (SearchEndedError, OutageError, InputError):  # too few answers, or of several calls
        return []
    found = []
    for by_level in (False, True) if len(caps.by_level) > 1 else (False,):
        settings = _changed(uncapped.settings, caps.settings(by_level=by_level))
        rule = settings.budget_for
        candidate = replace(task.incumbent, settings=settings)
        evaluator.add(candidate, [cut(one, rule(one.level) or base.cutoff) for one in records])
        found.append(candidate)
    return found


def _rank(trial: Trial) -> float:
    """Return E³ with half a right and half a wrong answer added, to rank by few answers."""
    return smoothed_e3(trial.scores, trial.costs) if any(trial.costs) else 0.0


def _settings_around(
    base: Settings, budgets: Sequence[Any], count: int, seed: int
) -> list[Settings]:
    """Return the methods without a plan, no planning, and random settings around a base."""
    rng = random.Random(seed)  # noqa: S311 -- no secret
    variants = [_changed(base, {"method": name}) for name in (*REFERENCES, PLANNED)]
    variants.append(_changed(base, {"method": PLANNED, "plan_from": None}))
    choices = {**DIMENSIONS, "budget": budgets}
    for _ in range(20 * count):  # some draws come to the same settings
        point = {name: rng.choice(choices[name]) for name in choices if rng.getrandbits(1)}
        if point.get("budget") is None:  # that of the base
            point.pop("budget", None)
        variants.append(_changed(base, {"method": PLANNED} | point))
    different = {new.model_dump_json(): new for new in variants if new != base}
    return list(different.values())[:count]


def _changed(base: Settings, changes: dict[str, Any]) -> Settings:
    return base.merged_with(Settings.model_validate(changes))
