"""E³ for optimizers that average: the tangent at the incumbent, one value for each example."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dspy

from optim.e3 import surrogate
from optim.tune.feedback import feedback

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optim.datasets import Question
    from optim.e3 import Incumbent

__all__ = ["FAR_BELOW", "clipped", "with_feedback", "worth"]

FAR_BELOW = -100.0
"""The score of what is no result: below any honest one that an optimizer can tell from others."""


def clipped(baseline: Incumbent) -> Callable[..., float | bool]:
    """Give the metric s = 2a/A0 - t/T0 for optimizers that only know numbers.

    Its mean is 1 at the incumbent. It is kept within ± `FAR_BELOW`: SIMBA raises e to it, divided
    by a temperature of 0.2, which overflows above 142.

    Args:
        baseline: The incumbent's A0 and T0.
    """

    def metric(
        gold: dspy.Example,  # noqa: ARG001 -- the bench has scored the answer
        pred: dspy.Prediction,
        trace: object = None,
    ) -> float | bool:
        if trace is not None:
            # Bootstrapping asks whether to keep an example, and takes any number but 0 for yes.
            return bool(pred.score)
        return worth(pred, baseline)

    return metric


def with_feedback(
    baseline: Incumbent, questions: Mapping[str, Question]
) -> Callable[..., dspy.Prediction]:
    """Give the same for GEPA: with accuracy and tokens kept apart, and words on what it cost.

    Args:
        baseline: The incumbent's A0 and T0.
        questions: By id.
    """

    def metric(
        gold: dspy.Example,
        pred: dspy.Prediction,
        trace: object = None,  # noqa: ARG001 -- GEPA's signature
        pred_name: str | None = None,
        pred_trace: object = None,  # noqa: ARG001
    ) -> dspy.Prediction:
        score = worth(pred, baseline)
        if pred.refused:
            return dspy.Prediction(score=score, feedback="not answered", objective_scores=None)
        words = feedback(pred, questions[gold.id], baseline) if pred_name else ""
        objectives = {"accuracy": float(pred.score), "neg_tokens": -float(pred.tokens)}
        return dspy.Prediction(score=score, feedback=words, objective_scores=objectives)

    return metric


def worth(pred: dspy.Prediction, baseline: Incumbent) -> float:
    """The tangent for one answer, within bounds; `FAR_BELOW` for what was never answered."""
    if pred.refused:
        return FAR_BELOW
    value = surrogate(pred.score, pred.tokens, baseline)
    return max(FAR_BELOW, min(-FAR_BELOW, value))
