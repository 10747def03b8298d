"""What the settings search gains: run `python tests/benchmarks/settings_search.py`.

Searches worlds that are made up: every value of every dimension adds something drawn by chance to
the accuracy (on the probit scale) and to the log of the tokens; methods without a plan likewise.
What is hard for one setting is hard for the others, and wrong answers are 1.6 times as long.
Prints the mean gain in true E³ of what wins on dev over the original, in percent, with its
standard error, for 100, 200 and 400 answers on 40 dev questions, and how many answers were spent
before each dimension was first varied (median).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, mean, median, stdev
from typing import Any, cast

import numpy as np

from optim.datasets import Question
from optim.e3 import ReferencePoint
from optim.tuning.evaluator import BudgetSpentError, Result
from optim.tuning.optimizers import OptimizerTask
from optim.tuning.program import Candidate
from optim.tuning.settings import search_settings
from optim.tuning.verdict import Trial
from pb_graph.settings import Settings
from tests.support.questions import generate

DEV = generate(40, split="settings")
START = Settings(method="plan_and_budget")
VARIED = ("method", "execution", "planning", "budget", "enforcement", "prompt_unit", "schedule")
ACCURACY, TOKENS, ALIKE, LONGER = 0.45, 600.0, 0.6, 1.6
ON_ACCURACY, ON_TOKENS = 0.06, 0.1  # standard deviations of what one value adds


@dataclass
class World:
    """Answers by settings; a stub of what measures candidates.

    Attributes:
        seed: Of the effects and of the luck.
        calls: How many answers there are.
        paid: Answers so far, in order.
    """

    seed: int
    calls: int
    paid: dict[tuple[str, str], Result] = field(default_factory=dict)
    varied: dict[str, int] = field(default_factory=dict)
    refusal: None = None

    def truth(self, settings: Settings) -> tuple[float, float]:
        """Chance of a right answer, and mean tokens."""
        if not settings.has_plan:
            right, dearer = self._effect("method", settings.method)
            scale = 1.5
        else:
            pairs = [self._effect(name, getattr(settings, name)) for name in VARIED[1:3]]
            pairs += [self._effect(name, getattr(settings, name)) for name in VARIED[4:]]
            right, dearer = (sum(column) for column in zip(*pairs, strict=True))
            scale = 1.0
        factor = np.log2(settings.budget_rule.total(1) / START.budget_rule.total(1))
        slope, cost = self._effect("budget", "slope")
        right += (0.1 + slope) * factor - 0.05 * factor**2
        dearer += (0.3 + cost) * factor
        normal = NormalDist()
        chance = normal.cdf(normal.inv_cdf(ACCURACY) + scale * right)
        return chance, TOKENS * float(np.exp(scale * dearer))

    def e3(self, settings: Settings) -> float:
        """The true E³."""
        chance, tokens = self.truth(settings)
        return (100 * chance) ** 2 / (tokens * (chance + LONGER * (1 - chance)))

    def measure(self, candidate: Candidate, questions: Sequence[Question]) -> list[Result]:
        """Answer, within the limit."""
        return [self._one(candidate, question) for question in questions]

    def _effect(self, name: str, value: object) -> tuple[float, float]:
        rng = np.random.default_rng([self.seed, *f"{name}={value}".encode()])
        return ON_ACCURACY * rng.standard_normal(), ON_TOKENS * rng.standard_normal()

    def _one(self, candidate: Candidate, question: Question) -> Result:
        key = (candidate.identity, question.id)
        if key not in self.paid:
            if len(self.paid) == self.calls:
                msg = "spent"
                raise BudgetSpentError(msg)
            for name in VARIED:
                if getattr(candidate.settings, name) != getattr(START, name):
                    self.varied.setdefault(name, len(self.paid))
            self.paid[key] = self._answer(candidate, question)
        return self.paid[key]

    def _answer(self, candidate: Candidate, question: Question) -> Result:
        chance, tokens = self.truth(candidate.settings)
        hard = np.random.default_rng([self.seed, *question.id.encode()]).standard_normal()
        own = np.random.default_rng(
            [self.seed, *question.id.encode(), *candidate.identity.encode()]
        )
        luck = np.sqrt(ALIKE) * hard + np.sqrt(1 - ALIKE) * own.standard_normal()
        right = luck < NormalDist().inv_cdf(chance)
        spent = tokens * np.exp(0.3 * hard + 0.2 * own.standard_normal() - 0.065)
        spent *= 1.0 if right else LONGER
        return Result(question.id, float(right), round(spent), cast("Any", None), None)


def searched(world: World, seed: int) -> float:
    """Gain of the winner of dev in true E³, 0.1 for 10 %."""
    start = Candidate(settings=START)
    world.measure(start, DEV)
    task = OptimizerTask(
        evaluator=cast("Any", world),
        incumbent=start,
        reference=ReferencePoint(50, 500),
        train=DEV,
        dev=DEV,
        predictor="decompose",
        reflector=None,
        answers=world.calls,
        seed=seed,
    )
    every = [start, *search_settings(task)]
    whole = [one for one in every if all((one.identity, q.id) in world.paid for q in DEV)]
    best = max(whole, key=lambda one: Trial(one, world.measure(one, DEV)).e3)
    return world.e3(best.settings) / world.e3(START) - 1.0


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=60)
    options = parser.parse_args()
    for calls in (100, 200, 400):
        worlds = [World(seed, calls) for seed in range(options.worlds)]
        gains = [searched(world, seed) for seed, world in enumerate(worlds)]
        first = {name: median(world.varied.get(name, calls) for world in worlds) for name in VARIED}
        print(
            json.dumps(
                {
                    "answers": calls,
                    "gain_percent": round(100 * mean(gains), 1),
                    "standard_error": round(100 * stdev(gains) / len(gains) ** 0.5, 1),
                    "first_varied_after": first,
                    "all_varied": sum(len(world.varied) == len(VARIED) for world in worlds),
                    "worlds": len(worlds),
                }
            )
        )


if __name__ == "__main__":
    main()
