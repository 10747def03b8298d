"""What a DSPy user has at hand, examples and a metric, in the forms that the bench works with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dspy

from optim.datasets import Question
from optim.datasets.jsonl import parse
from optim.scorers import Score, Scorer, ScorerError
from optim.tune.trial_program import example
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.datasets import Question as Judged

__all__ = ["Judge", "Metric", "question_of", "questions_of", "scorer_of"]

Metric = Callable[..., float]
"""A metric as DSPy has them: ``metric(example, prediction, trace=None)``, from 0 to 1."""

Judge = str | Scorer | Metric
"""A scorer's name, a scorer, or a metric."""

_EXAMPLE = "dspy.Example"  # key of a question's metadata


def questions_of(given: Iterable[Question | dspy.Example]) -> list[Question]:
    """Questions as they are, and examples as questions.

    Raises:
        InputError: An example that is no question, or one that is there twice.
    """
    found: dict[str, Question] = {}
    for place, one in enumerate(given, start=1):
        question = _at(place, one)
        if question.id in found:
            msg = f"example {place} is a question that is there already ({question.id})"
            raise InputError(msg)
        found[question.id] = question
    return list(found.values())


def question_of(given: dspy.Example) -> Question:
    """An example with ``question`` and ``answer`` (or ``answers``, a list).

    What else a question has (id, level, reference, instruction, answer_format, domain) is taken
    where the example has it; all of the example goes along for the metric.

    Raises:
        InputError: No question or answer, or a level outside 1 to 5.
    """
    return replace(parse(given.toDict()), metadata={_EXAMPLE: given})


def scorer_of(given: Judge) -> str | Scorer:
    """A scorer for the bench; a metric is wrapped."""
    if isinstance(given, str) or hasattr(given, "score"):
        return given
    return _MetricScorer(given)


class _MetricScorer:
    """Judges with a metric, which sees the example that it knows.

    Attributes:
        name: The metric's, for the fingerprint of a run.
    """

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self.name = getattr(metric, "__qualname__", type(metric).__qualname__)

    def score(self, output: str, question: Judged) -> Score:
        """Score the output.

        Raises:
            ScorerError: The metric failed, or gave no number from 0 to 1.
        """
        try:
            value = float(self._metric(_example(question), dspy.Prediction(answer=output)))
            return Score(value, None, f"by {self.name}")
        except Exception as error:
            msg = f"the metric {self.name} failed: {type(error).__name__}: {error}"
            raise ScorerError(msg) from error


def _at(place: int, given: Question | dspy.Example) -> Question:
    if isinstance(given, Question):
        return given
    if not isinstance(given, dspy.Example):
        msg = f"example {place} is of type {type(given).__name__}, not a dspy.Example or a Question"
        raise InputError(msg)
    try:
        return question_of(given)
    except InputError as error:
        msg = f"example {place}: {error}"
        raise InputError(msg) from error


def _example(question: Any) -> dspy.Example:  # noqa: ANN401 -- the scorers' protocol shows less
    return question.metadata.get(_EXAMPLE) or example(question)
