"""Adapt metrics of DSPy: ``metric(example, prediction, trace=None)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from optim.datasets.examples import known_example
from optim.scorers.base import FunctionScorer

if TYPE_CHECKING:
    from optim.datasets import Question


def from_dspy(metric: Callable[..., Any]) -> FunctionScorer:
    """Return a scorer that asks a metric of DSPy, whose value goes from 0 to 1.

    ::

        tune(program, train, dev, scorer=from_dspy(dspy.evaluate.answer_exact_match))

    Args:
        metric: Function of an example and a prediction with ``answer``. The example is the one that
            the question was made of, with all of its fields.
    """

    def judged(output: str, question: Question) -> Any:  # noqa: ANN401 -- a metric's value
        import dspy  # noqa: PLC0415 -- takes a second

        return metric(known_example(question), dspy.Prediction(answer=output))

    judged.__wrapped__ = metric  # type: ignore[attr-defined]  # its source identifies the scorer
    judged.__qualname__ = getattr(metric, "__qualname__", type(metric).__qualname__)
    return FunctionScorer(judged)
