"""What a candidate achieves on a set of questions: its answers, and the figures they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.e3 import Incumbent, Interval, Sample, compare, e3, interval
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.e3 import Comparison
    from optim.tune.bench import Result
    from optim.tune.candidate import Candidate

__all__ = ["Standing", "Trial"]

_PERCENT = 100.0


@dataclass(frozen=True, slots=True)
class Standing:
    """Answers to one set of questions.

    Attributes:
        results: One for each question, in the set's order.
    """

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
        """A, in percent."""
        return _PERCENT * sum(self.scores) / len(self.results)

    @property
    def tokens(self) -> float:
        """T, completion tokens per answer."""
        return sum(self.costs) / len(self.results)

    @property
    def e3(self) -> float:
        """A²/T; 0 when nothing is right, whatever it cost."""
        return e3(self.scores, self.costs) if any(self.scores) else 0.0

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

    def against(self, other: Standing, seed: int = 0) -> Comparison:
        """Compare with another on the same questions, paired."""
        return compare(self._samples(), other._samples(), seed=seed)

    def _samples(self) -> list[Sample]:
        return [Sample(r.question, r.score, r.tokens) for r in self.results]


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate that was measured on dev.

    Attributes:
        candidate: What was measured.
        standing: What came of it.
        origin: Who proposed it: ``original``, or the optimizer.
        round: In which round; 0 for the original.
    """

    candidate: Candidate
    standing: Standing
    origin: str
    round: int
