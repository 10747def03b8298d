"""What a candidate achieves, which one wins on dev, and whether it is better on other questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from optim.e3 import Incumbent, Interval, Sample, compare, describe, e3, interval, smoothed_e3
from optim.evaluation.limits import BudgetSpentError
from optim.report.formatting import certainty
from optim.statistics.estimates import PERCENT
from optim.tuning.evaluator import OutageError
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.e3 import Comparison
    from optim.tuning.candidate import Candidate
    from optim.tuning.evaluator import Evaluator, Result
    from optim.tuning.examples import Split

SURE = 0.9
"""One-sided confidence on the held-out questions from which the winner of dev is called better."""

VerdictName = Literal["better", "undecided", "kept"]

_MORE = (
    "More held-out questions would tell: give more, and the budget for them, in a run of their "
    "own. Each further look at the same ones and more is a further chance to be lucky."
)
_FEWEST = 2  # compared: of one there is no interval


@dataclass(frozen=True, slots=True)
class Measurement:
    """Answers to one set of questions, and the figures they make."""

    results: Sequence[Result]

    @property
    def scores(self) -> list[float]:
        """Each from 0 to 1."""
        return [result.score for result in self.results]

    @property
    def costs(self) -> list[int]:
        """Completion tokens of each answer."""
        return [result.tokens for result in self.results]

    @property
    def accuracy(self) -> float:
        """A, the mean score in percent."""
        return PERCENT * sum(self.scores) / len(self.results)

    @property
    def tokens(self) -> float:
        """T, completion tokens per answer."""
        return sum(self.costs) / len(self.results)

    @property
    def input_tokens(self) -> float:
        """Prompt tokens per answer: no part of T, but worked examples are not free."""
        return sum(one.report["usage"]["input_tokens"] for one in self.results) / len(self.results)

    @property
    def e3(self) -> float:
        """A²/T; 0 when nothing is right, whatever it cost."""
        return e3(self.scores, self.costs) if any(self.scores) else 0.0

    @property
    def smoothed(self) -> float:
        """E³ with half a right and half a wrong answer more: to rank by few answers; 0 if free."""
        return smoothed_e3(self.scores, self.costs) if any(self.costs) else 0.0

    @property
    def interval(self) -> Interval:
        """E³ with its 95 % interval."""
        return interval(self.scores, self.costs, clusters=[r.question for r in self.results])

    @property
    def incumbent(self) -> Incumbent:
        """Where the tangent touches.

        Raises:
            InputError: Nothing is right, or nothing cost anything.
        """
        if not any(self.scores):
            reasons = [" ".join(one.error.split()) for one in self.results if one.error]
            failed = f" {len(reasons)} of them failed, one with: {reasons[0]}" if reasons else ""
            msg = (
                f"none of the {len(self.results)} dev questions is answered right, so E³ is 0 and "
                f"nothing can be improved on.{failed} Try easier questions (--levels), a stronger "
                "model, more tokens (--set budget=...), or check that the scorer fits the answers."
            )
            raise InputError(msg)
        return Incumbent.of(self.scores, self.costs)

    def against(self, other: Measurement) -> Comparison:
        """Compare with another on the same questions, paired."""
        return compare(self._samples(), other._samples())

    def _samples(self) -> list[Sample]:
        return [Sample(r.question, r.score, r.tokens) for r in self.results]


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate that was measured on the whole of dev; the original's round is 0."""

    candidate: Candidate
    measurement: Measurement
    origin: str
    round: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the held-out questions say of the winner of dev.

    Attributes:
        verdict: ``better``: E³ is higher on the held-out questions with a one-sided confidence of
            `SURE` at least. ``undecided``: it is not below the original's there, which is reason
            enough to use the winner, and none to call it an improvement. ``kept``: the original
            stays.
        reason: In a sentence or two, with the held-out ratio whatever it is.
        winner: The best of dev; None when nothing was above the original there.
        original: The original on the held-out questions; None when nothing was compared.
        measurement: The winner on them, likewise.
        comparison: Winner against original, paired by question, likewise.
    """

    verdict: VerdictName
    reason: str
    winner: Trial | None = field(default=None, repr=False)  # every report would be shown
    original: Measurement | None = field(default=None, repr=False)
    measurement: Measurement | None = field(default=None, repr=False)
    comparison: Comparison | None = field(default=None, repr=False)

    @property
    def adopted(self) -> bool:
        """Whether the winner is used from now on: ``better`` or ``undecided``."""
        return self.verdict != "kept"


def winner_of(trials: Sequence[Trial], original: Trial) -> Trial | None:
    """The highest E³ on dev, the first of equals; None unless it is above the original's."""
    best = max(trials, key=lambda trial: trial.measurement.e3, default=original)
    return best if best.measurement.e3 > original.measurement.e3 else None


def decide(winner: Measurement, original: Measurement, comparison: Comparison) -> VerdictName:
    """Judge the winner of dev by the held-out questions.

    Only this one candidate is tested, once, on questions that had no part in choosing it: so a
    program that is no better is called better in at most one run of ten. Of several looks, as with
    a budget that was raised after a verdict, that is no longer true.
    ``tests/benchmarks/verdict_simulation.py`` measures how often that is.
    """
    same = winner.scores == original.scores and winner.costs == original.costs
    if same or comparison.e3_a == 0.0 or comparison.e3_a < comparison.e3_b:
        return "kept"
    sure = comparison.probability_higher
    return "better" if sure is not None and sure >= SURE else "undecided"


def judge(evaluator: Evaluator, original: Trial, winner: Trial | None, split: Split) -> Verdict:
    """Compare the winner of dev with the original on the held-out questions, and decide.

    A question that has no answer for a reason outside is left out for both.

    Raises:
        OutageError: The model is out of reach.
    """
    if winner is None:
        return Verdict("kept", "No candidate had a higher E³ on dev than the original.")
    pair = (original.candidate, winner.candidate)
    questions = list(split.held_out)
    for candidate in pair:
        try:
            evaluator.measure(candidate, questions)
        except BudgetSpentError:
            continue  # tokens ran out on the way: judged by what both have answered
        except OutageError:
            if evaluator.refusal is not None:
                raise
    answered = [one for one in questions if one.id not in evaluator.unanswered]
    left_out = len(questions) - len(answered)
    if left_out and len(answered) < _FEWEST:
        reason = "Too few held-out questions had an answer: the others failed for a reason outside."
        return Verdict("kept", reason, winner)
    if not all(evaluator.is_known(candidate, answered) for candidate in pair):
        reason = "The budget did not suffice for a comparison on the held-out questions."
        return Verdict("kept", reason, winner)
    before, after = (Measurement(evaluator.measure(candidate, answered)) for candidate in pair)
    comparison = after.against(before)
    verdict = decide(after, before, comparison)
    words = [_reason(verdict, comparison, before, after)]
    if left_out:
        words.append(f"Left out, without an answer for a reason outside: {left_out}.")
    if verdict == "undecided":
        words.append(_MORE)
    return Verdict(verdict, " ".join(words), winner, before, after, comparison)


def _reason(
    verdict: VerdictName, comparison: Comparison, before: Measurement, after: Measurement
) -> str:
    """The figures in words: the ratio whatever it is, and how far the questions decide it."""
    same = before.scores == after.scores and before.costs == after.costs
    if same and any(after.scores):
        n = comparison.questions
        return f"It gives the same results as the original on all {n} held-out questions."
    found = comparison.probability_higher
    sure = "unknown" if found is None else certainty(found)
    ending = {
        "better": f"Higher with a one-sided confidence of {sure}",
        "undecided": f"Not proven to be higher (one-sided confidence {sure}, where "
        f"{PERCENT * SURE:g} % would do): usable, but no known improvement",
        "kept": "So the original is kept",
    }[verdict]
    if not any(after.scores):
        right = "Neither answers any" if not any(before.scores) else "The candidate answers none"
        ending = f"{right} right, which is no success"
    return f"On the held-out questions, against the original: {describe(comparison)}. {ending}."
