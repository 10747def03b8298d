"""Searches the settings for E³: which schedule, which budgets, stepwise or not, and so on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import optuna

from optim.datasets.sampling import sample
from optim.tune.bench import OutageError
from optim.tune.candidate import Candidate
from optim.tune.meter import BudgetSpentError
from optim.tune.quiet import quiet
from optim.tune.search_space import SearchSpace
from optim.tune.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.datasets import Question
    from optim.tune.bench import Bench
    from optim.tune.proposer import Task

__all__ = ["SettingsSearch"]

MOST_TRIALS = 200
_IDLE = 25  # suggestions in a row that were measured before: the space holds little else
_FIRST = 8  # questions below which nothing is given up
_HOPELESS = 0.1  # chance of a higher E³ than the best so far
_STARTUP = 10  # trials before the sampler models what it has seen


class SettingsSearch:
    """Proposes settings with Optuna: accuracy up, tokens down, both at once.

    It begins with the original, the methods without a plan, the original with one choice changed
    at a time, and with all the changes that helped at once. Then the sampler (a tree-structured
    Parzen estimator for several objectives) takes over.

    A trial is measured on a quarter of dev, a half, and the whole; in between it is given up when
    its chance of a higher E³ than the best so far, by resampling the questions that both were
    asked, is below one in ten. The sampler is told what was measured, even so, but only what has
    met the whole of dev is proposed.

    Nothing is stored beside the bench's journal: with the same seed and the same answers the same
    trials come again, and those that were paid for cost nothing.

    Args:
        trials: How many at most.

    Attributes:
        tried: What the last search measured, in order, also what it gave up: a candidate, and how
            it did on all or the first questions.
    """

    name = "settings"
    reflects = False
    once = True

    def __init__(self, trials: int = MOST_TRIALS) -> None:
        self.trials = trials
        self.tried: list[tuple[Candidate, Standing]] = []

    def propose(self, task: Task) -> Sequence[Candidate]:
        """Give the settings that were measured on the whole of dev, the highest E³ first."""
        course = _Course(task)
        try:
            course.whole(task.incumbent)
            for settings in SearchSpace(task.incumbent.settings).references():
                course.whole(Candidate(task.incumbent.instructions, settings))
            with quiet():
                _Search(course, task).run(self.trials)
        except (BudgetSpentError, OutageError):
            pass  # the loop sees the bench's refusal, and goes on with what there is
        self.tried = course.tried
        ranked = sorted(course.complete, key=lambda pair: -pair[1].e3)
        return [candidate for candidate, _ in ranked]


class _Search:
    """Optuna's study, and the course that its trials take."""

    def __init__(self, course: _Course, task: Task) -> None:
        self._course = course
        self._instructions = task.incumbent.instructions
        self._space = SearchSpace(task.incumbent.settings)
        sampler = optuna.samplers.TPESampler(seed=task.seed, n_startup_trials=_STARTUP)
        self._study = optuna.create_study(directions=["maximize", "minimize"], sampler=sampler)
        self._idle = 0

    def run(self, trials: int) -> None:
        """Try the original, its neighbours, what helped of them at once, and then go on."""
        own, *others = self._space.starts()
        base = self._tried(own)
        worth = [
            (start, _gain(self._tried(start), base))
            for start in others[: trials - 1]
            if self._course.has_room
        ]
        left = trials - 1 - len(worth)
        for place in range(left):
            if self._idle == _IDLE or not self._course.has_room:
                break
            self._tried(None if place else self._space.joined(worth))

    def _tried(self, start: dict[str, Any] | None) -> Standing:
        """Measure what the sampler suggests, or this."""
        if start is not None:
            self._study.enqueue_trial(start)
        trial = self._study.ask()
        candidate = Candidate(self._instructions, self._space.drawn(trial))
        self._idle = self._idle + 1 if self._course.knows(candidate) else 0
        found = self._course.climbed(candidate)
        self._study.tell(trial, [found.accuracy, found.tokens])
        return found


class _Course:
    """Measures trials rung by rung; each meets the questions of dev in the same drawn order."""

    def __init__(self, task: Task) -> None:
        self._bench: Bench = task.bench
        self._questions: Sequence[Question] = sample(task.dev, len(task.dev), task.seed)
        self._calls = task.calls
        self._known: dict[str, tuple[Candidate, Standing]] = {}

    @property
    def tried(self) -> list[tuple[Candidate, Standing]]:
        """Every trial, in order of its beginning."""
        return list(self._known.values())

    @property
    def complete(self) -> list[tuple[Candidate, Standing]]:
        """Those that met every question."""
        return [pair for pair in self.tried if len(pair[1].results) == len(self._questions)]

    @property
    def has_room(self) -> bool:
        """Whether the calls that are left suffice for a whole trial."""
        return self._calls >= len(self._questions)

    def knows(self, candidate: Candidate) -> bool:
        """Whether it was tried before."""
        return candidate.identity in self._known

    def whole(self, candidate: Candidate) -> Standing:
        """Measure on every question."""
        return self._extended(candidate, len(self._questions))

    def climbed(self, candidate: Candidate) -> Standing:
        """Measure on more and more questions, as long as there is hope."""
        if self.knows(candidate):
            return self._known[candidate.identity][1]
        best = max((standing for _, standing in self.complete), key=lambda found: found.e3)
        first, *others = _rungs(len(self._questions))
        standing = self._extended(candidate, first)
        for count in others:
            if _hopeless(standing, best):
                break
            standing = self._extended(candidate, count)
        return standing

    def _extended(self, candidate: Candidate, count: int) -> Standing:
        known = self._known.get(candidate.identity)
        results = list(known[1].results) if known else []
        fresh = self._questions[len(results) : count]
        self._calls -= len(fresh)
        standing = Standing([*results, *self._bench.measure(candidate, fresh)])
        self._known[candidate.identity] = (candidate, standing)
        return standing


def _rungs(questions: int) -> list[int]:
    """A quarter, a half, and all; none but the last below the fewest that can tell."""
    parts = {max(_FIRST, -(-questions // 4)), max(_FIRST, -(-questions // 2))}
    return [*sorted(part for part in parts if part < questions), questions]


def _gain(standing: Standing, base: Standing) -> float:
    """E³ relative to the base's, on the questions that both were asked."""
    both = min(len(standing.results), len(base.results))
    ours, theirs = Standing(standing.results[:both]).e3, Standing(base.results[:both]).e3
    return ours / theirs if theirs else math.inf if ours else 1.0


def _hopeless(standing: Standing, best: Standing) -> bool:
    """Whether a higher E³ than the best's is out of the question, by what both were asked."""
    if not standing.tokens:
        return True  # nothing was charged: every answer failed
    same = Standing(best.results[: len(standing.results)])
    if not same.tokens:
        return False
    chance = standing.against(same).probability_better
    return chance is not None and chance < _HOPELESS
