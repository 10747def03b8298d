"""The interface of all scorers, and the scorers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from pb_graph.errors import PlanAndBudgetError

if TYPE_CHECKING:
    from optim.datasets import Question


class ScorerError(PlanAndBudgetError):
    """An answer could not be scored. The answer counts as unscored, not as wrong."""


@dataclass(frozen=True)
class Score:
    """The score of one answer.

    Attributes:
        value: From 0 (wrong) to 1 (perfect).
        answer: The answer that was read out of the output. None when none was found.
        explanation: The reason for the value, for a person.
        metadata: Details of the scorer as plain JSON, for tables and logs.
    """

    value: float
    answer: str | None
    explanation: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:  # also refuses NaN
            msg = f"a score must lie between 0 and 1, not {self.value!r}"
            raise ValueError(msg)
        object.__setattr__(self, "value", float(self.value))  # JSON knows no number of NumPy


@runtime_checkable
class Scorer(Protocol):
    """Scores one output for one question. Several threads may call it.

    A scorer that awaits something, such as a model that judges, also has
    ``async def score_async`` with the same arguments. This method is awaited instead of `score`.
    An empty answer is wrong, and not scored; ``def unanswered(question)`` returns its metadata.
    """

    def score(self, output: str, question: Question) -> Score:
        """Return the score of a whole answer as the model wrote it.

        Raises:
            ScorerError: If the output could not be scored at all.
        """


ScoreFunction = Callable[[str, "Question"], "Score | float"]
"""A function of output and question that returns a number from 0 to 1, a truth value or a `Score`.
"""

_Made = TypeVar("_Made", bound=Callable[..., Any])
SCORERS: dict[str, Callable[..., Any]] = {}
NAMES = SCORERS.keys()
"""Names of the scorers: those of this folder, and all that `register` adds."""


def register(name: str) -> Callable[[_Made], _Made]:
    """Register a scorer: a class that is made without arguments, or a scoring function.

    ::

        @register("exact")
        def exact(output, question):
            return output.strip() in question.targets

    Import slow libraries in the class's ``__init__``: all scorers of this folder are imported when
    one of them is used.
    """

    def decorate(scorer: _Made) -> _Made:
        SCORERS[name] = scorer
        return scorer

    return decorate


def name_of(scorer: object) -> str:
    """Return the name of a scorer, of its function or of its class."""
    name = getattr(scorer, "name", None) or getattr(scorer, "__qualname__", None)
    return str(name or type(scorer).__qualname__)


class FunctionScorer:
    """Scores with a function, whose source identifies the scorer."""

    def __init__(self, function: ScoreFunction) -> None:
        self.function = function
        self.name = name_of(function)

    def score(self, output: str, question: Question) -> Score:
        """Score as `Scorer.score`; a failure of the function is a `ScorerError`."""
        try:
            value = self.function(output, question)
            return value if isinstance(value, Score) else Score(float(value), None, self.name)
        except Exception as error:
            msg = f"the scorer {self.name} failed: {type(error).__name__}: {error}"
            raise ScorerError(msg) from error
