"""The last word: the best of dev and the original, on questions that nobody has tuned on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from optim.tune.meter import BudgetSpentError
from optim.tune.standing import Standing

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.e3 import Comparison
    from optim.tune.bench import Bench
    from optim.tune.standing import Trial

__all__ = ["FINALISTS", "Finalist", "Verdict", "finalists_of", "judge"]

FINALISTS = 3
_FEW = 20  # below it, questions that both get right alike make an interval too narrow


@dataclass(frozen=True, slots=True)
class Finalist:
    """One of the best on dev, on the held-out questions.

    Attributes:
        trial: What it is, and how it did on dev.
        standing: How it does here.
        comparison: Against the original, paired by question.
    """

    trial: Trial
    standing: Standing
    comparison: Comparison

    @property
    def is_worse(self) -> bool:
        """Whether its E³ is below the original's here."""
        return self.comparison.e3_a < self.comparison.e3_b


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether what was found replaces the original.

    Attributes:
        verdict: ``adopted`` or ``kept``.
        reason: In a sentence.
        original: The original on the held-out questions; None when there was nothing to compare.
        finalists: Those that were compared, best of dev first.
        chosen: The adopted one, or the one that failed; None without a finalist.
    """

    verdict: Literal["adopted", "kept"]
    reason: str
    original: Standing | None = field(repr=False)  # every report would be shown
    finalists: Sequence[Finalist] = field(repr=False)
    chosen: Finalist | None = field(repr=False)


def finalists_of(trials: Sequence[Trial], original: Trial) -> list[Trial]:
    """The best on dev, those above the original only, best first."""
    better = [trial for trial in trials if trial.standing.e3 > original.standing.e3]
    return sorted(better, key=lambda trial: -trial.standing.e3)[:FINALISTS]


def judge(
    bench: Bench, original: Trial, best: Sequence[Trial], held_out: Sequence[Question], seed: int
) -> Verdict:
    """Compare on the held-out questions, and decide.

    The rule: going down from the best of dev, the first whose exact E³ on the held-out questions
    is not below the original's is adopted. So the held-out questions only say yes or no to what
    dev has ranked; choosing by them would make their figures too good. The interval says how sure
    that is.

    Args:
        bench: Measures.
        original: What it has to be compared with.
        best: Finalists, best of dev first; each better there than the original.
        held_out: Questions that nothing was tuned on.
        seed: Of the comparison's bootstrap.
    """
    if not best:
        reason = "No candidate had a higher E³ on dev than the original."
        return Verdict("kept", reason, None, (), None)
    try:
        base = Standing(bench.measure(original.candidate, held_out))
    except BudgetSpentError:
        reason = "The budget did not suffice for a comparison on the held-out questions."
        return Verdict("kept", reason, None, (), None)
    compared = _compared(bench, best, base, held_out, seed)
    winner = next((one for one in compared if not one.is_worse), None)
    if winner is None:
        reason = "No finalist reached the original's E³ on the held-out questions."
        return Verdict("kept", reason, base, compared, compared[0] if compared else None)
    return Verdict("adopted", _praise(winner), base, compared, winner)


def _compared(
    bench: Bench, best: Sequence[Trial], base: Standing, held_out: Sequence[Question], seed: int
) -> list[Finalist]:
    found = []
    for trial in best:
        try:
            standing = Standing(bench.measure(trial.candidate, held_out))
        except BudgetSpentError:
            break
        found.append(Finalist(trial, standing, standing.against(base, seed)))
    return found


def _praise(winner: Finalist) -> str:
    comparison = winner.comparison
    ratio, lower = comparison.ratio, comparison.lower
    if ratio is None or lower is None:
        return "It is not worse than the original on the held-out questions."
    upper = "∞" if comparison.upper is None else f"{comparison.upper:.2f}"
    sure = "the interval is above 1" if lower > 1.0 else "the interval includes 1: not proven"
    if lower > 1.0 and comparison.questions < _FEW:
        sure += ", but from so few questions that it is too narrow"
    return (
        f"Its E³ is {ratio:.2f} times the original's on {comparison.questions} held-out questions "
        f"(95 % interval {lower:.2f} to {upper}; {sure})."
    )
