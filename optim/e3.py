"""Compute E³ = A²/T, its interval and paired comparisons; and optimize it with DSPy.

A is the mean score in percent, T the mean of completion tokens per query; E³ = A²/T (the paper's
section 3). Scores lie in [0, 1], tokens are not negative, one of each per query. Input that
would give a misleading number raises an `InputError` (a ValueError) that says why.
`optim.statistics.estimates` and `.comparison` explain the intervals.

DSPy's optimizers average over examples, but E³ is not an average. Its tangent at a reference point
is an average, and never exceeds E³ relative to that point: `metric` returns it, with feedback.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from optim.datasets.dataset import question_of
from optim.scorers import ScorerLike, as_scorer
from optim.statistics.comparison import Comparison, Sample, compare, describe, holm
from optim.statistics.estimates import (
    PERCENT,
    Answers,
    Interval,
    accuracy_interval,
    e3,
    interval,
    smoothed_e3,
    token_interval,
    validate_scores,
    validate_tokens,
)
from pb_graph.errors import InputError
from pb_graph.types import Report

__all__ = [
    "Comparison", "E3Metric", "Interval", "ReferencePoint", "Sample",
    "accuracy_interval", "compare", "describe", "e3", "holm", "interval", "metric", "smoothed_e3",
    "surrogate", "token_interval",
]  # fmt: skip

_SHOWN = 300  # characters of an answer in the feedback
_ENDS = {"length": ", cut off at its cap", "forced": ", hit its cap", "error": ", failed"}


@dataclass(frozen=True, slots=True)
class ReferencePoint:
    """The point at which the tangent touches E³: accuracy and tokens of the best program so far.

    Attributes:
        accuracy: A0, mean score in percent, above 0: at 0 no tangent tells better from worse.
        tokens: T0, mean completion tokens per query, above 0.

    Raises:
        InputError: If the accuracy is outside (0, 100], or the tokens are not above 0.
    """

    accuracy: float
    tokens: float

    def __post_init__(self) -> None:
        if not (0.0 < self.accuracy <= PERCENT and 0.0 < self.tokens < math.inf):
            msg = (
                "the accuracy of a reference point must lie in (0, 100] and its tokens above 0, "
                f"not {self.accuracy!r} and {self.tokens!r}"
            )
            raise InputError(msg)

    @classmethod
    def of(cls, scores: Sequence[float], tokens: Sequence[float]) -> ReferencePoint:
        """Take the point from measured answers.

        Args:
            scores: One per query, each in [0, 1].
            tokens: Completion tokens of the same queries.

        Raises:
            InputError: As for `optim.e3.e3`, or if no answer is right.
        """
        measured = Answers.of(scores, tokens)
        if not measured.scores.any():
            msg = (
                f"none of the {len(scores)} answers is right, so E³ has no tangent. Use easier "
                "questions, a stronger model, or a scorer that fits the answers."
            )
            raise InputError(msg)
        return cls(PERCENT * measured.score.value, measured.cost.value)


def surrogate(score: float, tokens: float, reference: ReferencePoint) -> float:
    """Return one example's share of E³: s = 2a/A0 - t/T0, the tangent of A²/T at the reference.

    Relative to the reference, E³ is x²/y with x = A/A0 and y = T/T0, and x²/y >= 2x - y because
    (x - y)² >= 0. The mean of s over examples therefore never exceeds E³ / E³_0: a mean above 1
    proves an improvement on those examples. The converse does not hold.

    Args:
        score: In [0, 1].
        tokens: Completion tokens of the example.
        reference: Point at which the tangent touches E³.
    """
    value, spent = validate_scores([score])[0], validate_tokens([tokens])[0]
    return float(2.0 * PERCENT * value / reference.accuracy - spent / reference.tokens)


@dataclass(frozen=True)
class E3Metric:
    """A DSPy metric whose mean is E³'s tangent; `optim.e3.metric` returns it.

    A score is (1 + s·a/2) / 2 with a = A0/100 and s of `surrogate`. So no answer reaches the 1 at
    which GEPA skips an example as perfect, and none is below the 0 that DSPy gives for a failure. A
    wrong answer of more than 2/a times the mean tokens gets 0, and so does a right one of more than
    4/a times.

    Works with ``dspy.GEPA``, ``MIPROv2``, ``COPRO``, ``BootstrapFewShot`` and
    ``dspy.Evaluate``. Predictions need ``answer`` and ``tokens``, as `GraphProgram` gives them.

    Attributes:
        reference: Point at which the tangent touches E³.
        score: Scores a prediction from 0 to 1, given the example.
    """

    reference: ReferencePoint
    score: Callable[[Any, Any], float]

    def __call__(
        self,
        gold: Any,  # noqa: ANN401 -- a dspy.Example
        pred: Any,  # noqa: ANN401 -- a dspy.Prediction
        trace: object = None,
        pred_name: str | None = None,
        pred_trace: object = None,  # noqa: ARG002 -- GEPA's signature
    ) -> Any:  # noqa: ANN401 -- a truth value, or a dspy.Prediction that counts as its score
        """Return the tangent's score with feedback and objectives; a truth value to bootstrap."""
        score = self.score(gold, pred)
        if trace is not None and pred_name is None:
            return PERCENT * score >= self.reference.accuracy  # whether to keep the example
        import dspy  # noqa: PLC0415 -- takes a second

        share = self.reference.accuracy / PERCENT
        value = max(0.0, 0.5 + 0.25 * share * surrogate(score, pred.tokens, self.reference))
        if not (score or pred.tokens):  # a failed call
            value = 0.0
        return dspy.Prediction(
            score=value,
            feedback=_feedback(gold, pred, score, self.reference),
            objective_scores={"accuracy": score, "neg_tokens": -float(pred.tokens)},
        )


def metric(
    program: Callable[..., Any], devset: Sequence[Any], scorer: ScorerLike, *, threads: int = 8
) -> E3Metric:
    """Measure a program on a dev set, and return the E³ metric with the tangent at that point.

    ::

        metric = optim.e3.metric(program, devset, "math")
        better = dspy.COPRO(metric=metric).compile(program, trainset=devset, eval_kwargs={})

    Args:
        program: The incumbent, a `GraphProgram` or any module whose predictions have ``answer``
            and ``tokens``. Each question of the dev set is answered once.
        devset: Examples with ``question`` and ``answer``, or questions.
        scorer: As for `optim.scorers.as_scorer`; ``from_dspy(metric)`` for a metric of DSPy's.
        threads: How many questions are answered at once.

    Raises:
        InputError: If the dev set is empty, an example is not a question, predictions have no
            ``tokens``, or every answer is wrong.
        ScorerError: If the scorer cannot be set up, or cannot score an answer.
    """
    judge = as_scorer(scorer)

    def score(gold: Any, pred: Any) -> float:  # noqa: ANN401 -- DSPy's
        return judge.score(pred.answer, question_of(gold)).value if pred.answer else 0.0

    import dspy  # noqa: PLC0415 -- takes a second

    run = dspy.Parallel(  # in the caller's `dspy.context`; no answer is asked for twice
        num_threads=threads,
        timeout=0,
        disable_progress_bar=True,
        max_errors=len(devset) + 1,
        return_failed_examples=True,
    )
    predictions, _, errors = run([(program, dict(item.inputs())) for item in devset])
    if errors:
        raise errors[0]
    if any(not hasattr(pred, "tokens") for pred in predictions):
        msg = "the program's predictions have no tokens: use optim.tuning.GraphProgram"
        raise InputError(msg)
    scores = [score(gold, pred) for gold, pred in zip(devset, predictions, strict=True)]
    return E3Metric(ReferencePoint.of(scores, [pred.tokens for pred in predictions]), score)


def _feedback(gold: Any, pred: Any, score: float, reference: ReferencePoint) -> str:  # noqa: ANN401
    """Describe whether an answer was right and where its tokens went, one line each."""
    answers = gold.get("answer") or gold.get("answers") or ""
    gold_note = f" The answer is {_shortened(str(answers))}." if answers else ""
    compared = "more" if pred.tokens > reference.tokens else "no more"
    cost = f"It cost {pred.tokens} tokens, {compared} than the {reference.tokens:.0f} on average."
    if getattr(pred, "error", None):
        lines = [f"There is no answer: {_shortened(str(pred.error))}{gold_note}", cost]
    elif score >= 1.0:
        lines = ["The answer is right.", cost]
    else:
        end = _shortened(str(pred.answer)[-_SHOWN:])
        lines = [f"The answer scores {score:g} of 1; it ends with: {end}{gold_note}", cost]
    report: Report | None = getattr(pred, "report", None)
    if not report:
        return "\n".join(lines)
    nodes = {name: part["output_tokens"] for name, part in report["usage"]["by_node"].items()}
    planning = sum(nodes.get(name, 0) for name in ("plan", "estimate"))
    listed = ", ".join(f"{name} {tokens}" for name, tokens in nodes.items())
    lines.append(f"{planning} of them went into planning ({listed}).")
    if steps := report["steps"]:
        lines.append(f"The plan had {len(steps)} step{'' if len(steps) == 1 else 's'}.")
    for step in steps:
        if step["answer"] is not None:
            how = f"{step['tokens']} tokens{_ENDS.get(step['finish'] or '', '')}"
            lines.append(f"Step {step['index'] + 1} ({how}) gave: {_shortened(step['answer'])}")
    lines += [f"Note: {_shortened(warning['message'])}" for warning in report["warnings"]]
    return "\n".join(lines)


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]} …"
