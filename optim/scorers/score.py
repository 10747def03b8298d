"""What every scorer gives back, what it needs of a question, and how it fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pb_graph.errors import PlanAndBudgetError

if TYPE_CHECKING:
    from collections.abc import Mapping


class ScorerError(PlanAndBudgetError):
    """A scorer could not do its work: the answer is unscored, which is not the same as wrong."""


@dataclass(frozen=True)
class Score:
    """How good one answer is.

    Attributes:
        value: From 0 (wrong) to 1 (perfect).
        answer: What was read out of the model's output; None when nothing could be.
        explanation: Why the value is what it is, for a person.
        metadata: Plain JSON details of the scorer, for tables and logs.
    """

    value: float
    answer: str | None
    explanation: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:  # also refuses NaN
            msg = f"a score lies between 0 and 1, not {self.value!r}"
            raise ValueError(msg)


class Question(Protocol):
    """The part of `optim.datasets.question.Question` that scorers look at."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The accepted answers, at least one where the data set has answers."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Fields of the data set itself, as plain JSON."""


class Scorer(Protocol):
    """Judges one output against one question; safe to call from several threads."""

    def score(self, output: str, question: Question) -> Score:
        """Score the output.

        Raises:
            ScorerError: The output could not be judged at all.
        """
