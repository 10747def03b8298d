"""What every scorer gives back and how it fails, and the scorers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from typing_extensions import TypeIs

from pb_graph.errors import InputError, PlanAndBudgetError, did_you_mean

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer as InspectsScorer

    from optim.datasets import Question


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
        object.__setattr__(self, "value", float(self.value))  # of numpy's numbers JSON knows none


@runtime_checkable
class Scorer(Protocol):
    """Judges one output against one question; safe to call from several threads.

    One that waits for others, such as for a model that judges, also has ``async def score_async``
    with the same arguments; it is awaited in its place.
    """

    def score(self, output: str, question: Question) -> Score:
        """Score the output.

        Raises:
            ScorerError: The output could not be judged at all.
        """


Judgement = Callable[[str, "Question"], "Score | float"]
"""A scoring function: what an answer is worth, from 0 to 1, or whether it is right."""

_Made = TypeVar("_Made", bound=Callable[..., Any])
_SCORERS: dict[str, Callable[..., Any]] = {}
NAMES = _SCORERS.keys()
"""The names of the scorers: those of this folder, and whatever else `register` has decorated."""


def register(name: str) -> Callable[[_Made], _Made]:
    """Give a scorer its name: a class that is made without arguments, or a scoring function.

    ::

        @register("exact")
        def exact(output, question):
            return output.strip() in question.targets

    Libraries that take long to load belong into the class's ``__init__``: all scorers of this
    folder are imported as soon as one is asked for.

    Raises:
        ValueError: There is a scorer of that name already.
    """

    def decorate(made: _Made) -> _Made:
        if name in _SCORERS:
            msg = f"there is a scorer named {name!r} already"
            raise ValueError(msg)
        _SCORERS[name] = made
        return made

    return decorate


def scorer(name: str) -> Scorer:
    """Make the scorer of that name, with its defaults.

    Raises:
        InputError: No such scorer.
        ScorerError: Its libraries are not installed.
    """
    if name not in _SCORERS:
        msg = f"no scorer named {name!r}; there are: {', '.join(NAMES)}"
        raise InputError(msg + did_you_mean(name, NAMES))
    try:
        return as_scorer(_SCORERS[name])
    except ImportError as error:
        msg = f"the scorer {name!r} needs {error.name}: pip install 'plan-and-budget[eval]'"
        raise ScorerError(msg) from error


def is_inspect(value: object) -> TypeIs[InspectsScorer]:
    """Whether a function under Inspect's ``@scorer`` has made this."""
    return getattr(getattr(value, "__registry_info__", None), "type", None) == "scorer"


def as_scorer(value: str | Scorer | type[Scorer] | Judgement | InspectsScorer) -> Scorer:
    """Give a scorer for a name, a scorer, its class, or a function of output and question.

    A scorer of Inspect, such as ``inspect_ai.scorer.match()``, is one, too.

    Raises:
        InputError: There is no scorer of that name.
        ScorerError: It is none of these, or the scorer of that name cannot be made.
    """
    if isinstance(value, str):
        return scorer(value)
    if isinstance(value, type):
        return as_scorer(value())
    if is_inspect(value):
        from optim.scorers.inspect_scorers import InspectScorer  # noqa: PLC0415 -- it imports this

        return InspectScorer(value)
    if isinstance(value, Scorer):
        return value
    if callable(value) and not iscoroutinefunction(value):
        return FunctionScorer(value)
    msg = (
        f"{value!r} is no scorer: give one of {', '.join(NAMES)}, an object with score(output, "
        "question), a function (output, question) that is not async, or a scorer of Inspect"
    )
    raise ScorerError(msg)


class FunctionScorer:
    """Scores with a function, which stays there for whoever asks how it is written."""

    def __init__(self, function: Judgement) -> None:
        self.function = function
        self.name: str = getattr(function, "__qualname__", type(function).__qualname__)

    def score(self, output: str, question: Question) -> Score:
        """Score the output.

        Raises:
            ScorerError: The function failed, or gave no number from 0 to 1.
        """
        try:
            value = self.function(output, question)
            return value if isinstance(value, Score) else Score(float(value), None, self.name)
        except Exception as error:
            msg = f"the scorer {self.name} failed: {type(error).__name__}: {error}"
            raise ScorerError(msg) from error
