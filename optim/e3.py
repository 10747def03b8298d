"""E³, the efficiency score A²/T: the figure, its interval, paired comparison and tangent.

A is the mean score in percent, T the mean of completion tokens per query; E³ = A²/T (the paper's
section 3). Scores lie in [0, 1], tokens are not negative, one of each per query. Everything here
refuses what would give a misleading number with an `InputError` (a ValueError) that says why.
How the intervals come about is told in `optim.statistics.estimates` and `.comparison`.
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
    """Say in a plain sentence what a comparison found, of a against b, and how sure it is."""
    one = comparison
    tokens = f"tokens {_times(one.tokens_ratio, one.tokens_lower, one.tokens_upper)}"
    ratio = f"E³ {_times(one.ratio, one.lower, one.upper)}"
    if one.e3_a == one.e3_b == 0.0:
        parts = ["accuracy undecided: nothing is right on either side", tokens]
    elif one.discordant == 0:
        parts = ["accuracy undecided: no question differs", tokens, ratio]
    else:
        ends = one.accuracy_lower, one.accuracy_upper
        span = "" if None in ends else "{:+.1f} to {:+.1f}; ".format(*ends)
        differ = f"({span}{one.discordant} of {one.questions} differ)"
        parts = [ratio, f"accuracy {one.accuracy_difference:+.1f} points {differ}", tokens]
    sentence = f"{'; '.join(parts)}; n = {one.questions}"
    if one.questions > 1:
        sentence += f", {PERCENT * one.confidence:g} % intervals"
    if one.ratio is not None and one.questions < MIN_UNBIASED_QUESTIONS:
        sentence += f"; below {MIN_UNBIASED_QUESTIONS} questions an E³ ratio is biased upwards"
    return sentence


def _times(ratio: float | None, lower: float | None, upper: float | None) -> str:
    known = "has no ratio, b's being 0" if ratio is None else f"{_factor(ratio)} times"
    if lower is None:
        return known
    high = "no upper end" if upper is None else _factor(upper)
    return f"{known} ({_factor(lower)} to {high})"


def _factor(value: float) -> str:
    if value >= 1000.0:  # noqa: PLR2004 -- beyond it digits mean nothing
        return "more than 1000"
    if 0.0 < value < 0.01:  # noqa: PLR2004
        return "less than 0.01"
    return f"{value:.0f}" if value >= 10.0 else f"{value:.2f}"  # noqa: PLR2004
