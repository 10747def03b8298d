"""What optimizers are told of one answer: its share of E³ as a number, and its outcome in words.

Optimizers average, and E³ is no average: so the number is the tangent at the incumbent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dspy

from optim.e3 import surrogate
from optim.records import planning_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from optim.datasets import Question
    from optim.e3 import Incumbent
    from pb_graph.state import Report

FAR_BELOW = -100.0
"""The score of what is no result: below any honest one that an optimizer can tell from others."""

_SHOWN = 300  # characters of an answer
_ENDS = {"length": ", cut off at its cap", "forced": ", hit its cap", "error": ", failed"}


def clipped(baseline: Incumbent) -> Callable[..., float | bool]:
    """Give the metric s = 2a/A0 - t/T0 for optimizers that only know numbers.

    Its mean is 1 at the incumbent. It is kept within ± `FAR_BELOW`: SIMBA raises e to it, divided
    by a temperature of 0.2, which overflows above 142.
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
    """Give the same for GEPA: with accuracy and tokens kept apart, and words on what it cost."""

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


def feedback(pred: dspy.Prediction, question: Question, baseline: Incumbent) -> str:
    """Put an answer's outcome into words."""
    lines = [_outcome(pred, question), _cost(pred.report, baseline), *_steps(pred.report)]
    return "\n".join(lines)


def _outcome(pred: dspy.Prediction, question: Question) -> str:
    gold = " or ".join(question.targets)
    wanted = f" The answer is {_short(gold)}." if gold else ""
    if pred.error is not None:
        return f"There is no answer: {_short(pred.error)}{wanted}"
    if pred.score >= 1.0:
        return "The answer is right."
    end = _short(str(pred.answer)[-_SHOWN:])
    return f"The answer scores {pred.score:g} of 1; it ends with: {end}{wanted}"


def _cost(report: Report, baseline: Incumbent) -> str:
    usage = report["usage"]
    total, planning = usage["output_tokens"], planning_tokens(report)
    parts = ", ".join(f"{name} {part['output_tokens']}" for name, part in usage["by_node"].items())
    verdict = "more" if total > baseline.tokens else "no more"
    return (
        f"It cost {total} tokens, {verdict} than the {baseline.tokens:.0f} of a usual answer; "
        f"{planning} of them went into planning ({parts})."
    )


def _steps(report: Report) -> Iterator[str]:
    steps = report["steps"]
    if steps:
        yield f"The plan had {len(steps)} step{'' if len(steps) == 1 else 's'}."
    for step in steps:
        if step["answer"] is not None:
            how = f"{step['tokens']} tokens{_ENDS.get(step['finish'] or '', '')}"
            yield f"Step {step['index'] + 1} ({how}) gave: {_short(step['answer'])}"
    yield from (f"Note: {_short(warning)}" for warning in report["warnings"])


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]} …"
