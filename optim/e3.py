"""Compute E³ = A²/T, its interval, paired comparisons and its tangent.

A is the mean score in percent, T the mean of completion tokens per query; E³ = A²/T (the paper's
section 3). Scores lie in [0, 1], tokens are not negative, one of each per query. Input that
would give a misleading number raises an `InputError` (a ValueError) that says why.
`optim.statistics.estimates` and `.comparison` explain the intervals.
"""

from __future__ import annotations

from optim.statistics.comparison import (
    MIN_UNBIASED_QUESTIONS,
    Comparison,
    Sample,
    compare,
    describe,
    holm,
)
from optim.statistics.estimates import (
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
