"""Compute E³ = A²/T, its interval, paired comparisons and its tangent.

A is the mean score in percent, T the mean of completion tokens per query; E³ = A²/T (the paper's
section 3). Scores lie in [0, 1], tokens are not negative, one of each per query. Everything here
refuses what would give a misleading number with an `InputError` (a ValueError) that says why.
`optim.statistics.estimates` and `.comparison` explain the intervals.
"""

from __future__ import annotations

from optim.statistics.checks import holm
from optim.statistics.comparison import MIN_UNBIASED_QUESTIONS, Comparison, Sample, compare
from optim.statistics.estimates import (
    PERCENT,
    Interval,
    accuracy_interval,
    e3,
    interval,
    smoothed_e3,
    token_interval,
)
from optim.tangent import ReferencePoint, metric, surrogate

__all__ = [
    "MIN_UNBIASED_QUESTIONS",
    "Comparison",
    "Interval",
    "ReferencePoint",
    "Sample",
    "accuracy_interval",
    "compare",
    "describe",
    "e3",
    "holm",
    "interval",
    "metric",
    "smoothed_e3",
    "surrogate",
    "token_interval",
]


def describe(comparison: Comparison) -> str:
    """Describe a comparison of a with b in one sentence, with its interval."""
    one = comparison
    accuracy = f"accuracy {one.accuracy_difference:+.1f} points"
    if one.accuracy_lower is not None:
        accuracy += f" ({one.accuracy_lower:+.1f} to {one.accuracy_upper:+.1f})"
    if one.discordant == 0:
        accuracy = "accuracy undecided: no question differs"
    tokens = f"tokens {_times(one.tokens_ratio, one.tokens_lower, one.tokens_upper)}"
    ratio = "E³ has no ratio, b's being 0"
    if one.ratio is not None:
        ratio = f"E³ {_times(one.ratio, one.lower, one.upper)}"
    sentence = f"{accuracy}; {tokens}; {ratio}; n = {one.questions}"
    if one.questions > 1:
        sentence += f", {PERCENT * one.confidence:g} % intervals"
    if one.questions < MIN_UNBIASED_QUESTIONS:
        sentence += f"; below {MIN_UNBIASED_QUESTIONS} questions an E³ ratio is biased upwards"
    return sentence


def _times(ratio: float, lower: float | None, upper: float | None) -> str:
    if lower is None:
        return f"{ratio:.2f} times"
    high = "∞" if upper is None else f"{upper:.2f}"
    return f"{ratio:.2f} times ({lower:.2f} to {high})"
