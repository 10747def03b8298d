"""Inspect metrics over answers: accuracy, tokens per query, and E³ with its interval.

Inspect computes them over the samples that have a score. Samples that ended in an error have
none; they are counted in the log, and `optim.summary` shows them beside the figures.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from inspect_ai.scorer import Metric, MetricProtocol, SampleScore, Value, metric

from optim.e3 import interval
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["accuracy", "e3", "tokens"]


@metric
def accuracy() -> Metric:
    """Mean score in percent."""
    return _mean_of("score", scale=100.0)


@metric
def tokens() -> Metric:
    """T: mean completion tokens per query, planning included."""
    return _mean_of("tokens")


@metric
def e3() -> Metric:
    """E³ = A²/T and the ends of its 95 % interval.

    With several epochs Inspect first takes the mean of each question, so a question is one
    cluster, as it should be.
    """

    def compute(scores: list[SampleScore]) -> Value:
        values = [_values(score) for score in scores]
        try:
            found = interval([v["score"] for v in values], [v["tokens"] for v in values])
        except InputError:  # nothing scored, or no token spent
            return {"e3": math.nan, "e3_lower": math.nan, "e3_upper": math.nan}
        ends = {"e3_lower": found.lower, "e3_upper": found.upper}
        return {"e3": found.e3} | {k: math.nan if v is None else v for k, v in ends.items()}

    return compute


def _mean_of(name: str, scale: float = 1.0) -> MetricProtocol:
    def compute(scores: list[SampleScore]) -> Value:
        if not scores:
            return math.nan
        return scale * sum(_values(score)[name] for score in scores) / len(scores)

    return compute


def _values(score: SampleScore) -> Mapping[str, float]:
    return cast("Mapping[str, float]", score.score.value)
