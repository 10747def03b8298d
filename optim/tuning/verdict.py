"""Compare measured candidates: the best on dev, and the verdict on held-out questions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from optim.e3 import Sample, compare, describe, e3
from optim.statistics.estimates import PERCENT
from optim.tuning.evaluator import OutageError, SearchEndedError

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.e3 import Comparison
    from optim.records import Record
    from optim.tuning.evaluator import Evaluator
    from optim.tuning.program import Candidate

SURE = 0.9
"""One-sided confidence on the held-out questions from which the winner of dev is called better."""

VerdictName = Literal["better", "undecided", "kept"]

_FEWEST = 2  # compared questions: one has no interval


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate's answers to one set of questions, and what each of them costs.

    Attributes:
        candidate: The candidate.
        records: Its answers.
        origin: Name of the optimizer that proposed it.
        cost: The cost of an answer in completion tokens; E³ is taken by this cost.
    """

    candidate: Candidate
    records: Sequence[Record]
    origin: str = ""
    cost: Callable[[Record], int] = field(default=attrgetter("tokens"), repr=False, compare=False)

    @property
    def scores(self) -> list[float]:
        """Scores from 0 to 1."""
        return [record.score or 0.0 for record in self.records]

    @property
    def costs(self) -> list[int]:
        """The cost of each answer."""
        return [self.cost(record) for record in self.records]

    @property
    def e3(self) -> float:
        """A²/T; 0 when nothing is right."""
        return e3(self.scores, self.costs) if any(self.scores) else 0.0

    def against(self, other: Trial) -> Comparison:
        """Compare with another candidate's answers to the same questions, paired."""
        mine, others = (
            [Sample(each.question, each.score or 0.0, self.cost(each)) for each in trial.records]
            for trial in (self, other)
        )
        return compare(mine, others)


def winner_of(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial with the highest E³ on dev; None if no E³ is above that of the first."""
    best = max(trials, key=lambda trial: trial.e3)
    return best if best.e3 > trials[0].e3 else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on the best candidate of dev, from the held-out questions.

    Attributes:
        verdict: ``better``: its E³ is higher there with a one-sided confidence of at least
            `SURE`. ``undecided``: it is not below the original's, so the winner is used, but is
            no known improvement. ``kept``: the original stays.
        reason: One or two sentences with the held-out ratio.
        winner: The best candidate on dev; None if no candidate was above the original.
        before: The original on the held-out questions; None when nothing was compared.
        after: The winner on the held-out questions.
        comparison: Comparison of both, paired by question.
    """

    verdict: VerdictName
    reason: str
    winner: Trial | None = field(default=None, repr=False)  # every report would be shown
    before: Trial | None = field(default=None, repr=False)
    after: Trial | None = field(default=None, repr=False)
    comparison: Comparison | None = field(default=None, repr=False)

    @property
    def is_adopted(self) -> bool:
        """Return whether the winner is used from now on: ``better`` or ``undecided``."""
        return self.verdict != "kept"


def judge(evaluator: Evaluator, trials: Sequence[Trial], held_out: Sequence[Question]) -> Verdict:
    """Compare the winner of dev with the original on the held-out questions, and decide.

    A question that could not be answered is left out for both.
    """
    original, winner = trials[0], winner_of(trials)
    if len(trials) == 1:
        return Verdict("kept", "No candidate was measured on dev.")
    if winner is None:
        return Verdict("kept", "No candidate had a higher E³ on dev than the original.")
    pair = (original.candidate, winner.candidate)
    for candidate in pair:
        with suppress(OutageError, SearchEndedError):
            evaluator.measure(candidate, held_out)
    if isinstance(evaluator.refusal, OutageError):
        raise evaluator.refusal
    questions = [q for q in held_out if all(evaluator.known(each, [q]) for each in pair)]
    if len(questions) < _FEWEST:
        return Verdict("kept", "Too few held-out questions were answered.", winner)
    before, after = (
        Trial(each, evaluator.known(each, questions), cost=evaluator.options.cost) for each in pair
    )
    comparison = after.against(before)
    verdict = decide(after, before, comparison)
    reason = f"On the held-out questions, against the original: {describe(comparison)}."
    reason += f" {_conclusion(verdict, comparison)}"
    if failed := len(held_out) - len(questions):
        reason += f" Excluded, because they failed: {failed} questions."
    return Verdict(verdict, reason, winner, before, after, comparison)


def decide(winner: Trial, original: Trial, comparison: Comparison) -> VerdictName:
    """Judge the winner of dev by the held-out questions.

    Only this candidate is tested, once, on questions that were not used to choose it. A program
    that is not better is called better in at most one of ten runs. Repeated tests err more often:
    ``tests/benchmarks/verdict_simulation.py`` measures how often.
    """
    is_same = winner.scores == original.scores and winner.costs == original.costs
    if is_same or comparison.e3_a == 0.0 or comparison.e3_a < comparison.e3_b:
        return "kept"
    sure = comparison.probability_higher
    return "better" if sure is not None and sure >= SURE else "undecided"


def _conclusion(verdict: VerdictName, comparison: Comparison) -> str:
    if verdict == "kept":
        return "So the original is kept."
    # Rounded down: 90 % is never said of less, and 100 % never.
    sure = f"{min(99, math.floor(PERCENT * (comparison.probability_higher or 0.0)))} %"
    if verdict == "better":
        return f"Higher with a one-sided confidence of {sure}."
    return (
        f"Not significant: one-sided confidence {sure}, {PERCENT * SURE:g} % required. The tuned "
        "program is used, but is not a proven improvement. Give more held-out questions in a new "
        "run; a second look at the same ones is a further chance to be lucky."
    )
