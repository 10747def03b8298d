"""E³, the efficiency score A²/T: the figure, its interval, paired comparison and tangent.

A is the mean score in percent, T the mean of completion tokens per query; E³ = A²/T (the paper's
section 3). Scores lie in [0, 1], tokens are not negative, one of each per query. Everything here
refuses what would give a misleading number with an `InputError` (a ValueError) that says why.
How the intervals come about is told in `optim.statistics.estimates` and `.comparison`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.statistics.checks import checked_scores, checked_tokens, measured
from optim.statistics.comparison import FEW, Comparison, Sample, compare
from optim.statistics.estimates import (
    PERCENT,
    Interval,
    OverRuns,
    a_over_t,
    accuracy_interval,
    e3,
    interval,
    over_runs,
    smoothed_e3,
    token_interval,
)
from optim.statistics.p_values import holm
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Comparison",
    "Incumbent",
    "Interval",
    "OverRuns",
    "Sample",
    "a_over_t",
    "accuracy_interval",
    "compare",
    "describe",
    "e3",
    "holm",
    "interval",
    "over_runs",
    "smoothed_e3",
    "surrogate",
    "token_interval",
]


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The point at which the tangent touches: what the best program so far achieves.

    Attributes:
        accuracy: A0, mean score in percent, above 0.
        tokens: T0, mean completion tokens per query, above 0.

    Raises:
        InputError: An accuracy outside (0, 100] or tokens that are not above 0. At accuracy 0 E³
            has no tangent that tells better from worse; use a floor such as half a correct
            answer, ``Incumbent(50 / n, tokens)``.
    """

    accuracy: float
    tokens: float

    def __post_init__(self) -> None:
        if not 0.0 < self.accuracy <= PERCENT:
            msg = (
                f"an incumbent's accuracy lies in (0, 100] percent, not {self.accuracy!r}; with "
                "none right, use a floor such as half a correct answer: 50 / number of items"
            )
            raise InputError(msg)
        if not (math.isfinite(self.tokens) and self.tokens > 0.0):
            msg = f"an incumbent's mean tokens must be above 0, not {self.tokens!r}"
            raise InputError(msg)

    @classmethod
    def of(cls, scores: Sequence[float], tokens: Sequence[float]) -> Incumbent:
        """Take the point from measured scores in [0, 1] and tokens, one per query."""
        a, t = measured(scores, tokens)
        return cls(PERCENT * float(a.mean()), float(t.mean()))


def surrogate(score: float, tokens: float, incumbent: Incumbent) -> float:
    """Give one example's share of E³: s = 2a/A0 - t/T0, the tangent of A²/T at the incumbent.

    Relative to the incumbent, E³ is x²/y with x = A/A0 and y = T/T0, and x²/y >= 2x - y because
    (x - y)² >= 0. The mean of s over examples therefore never exceeds E³ / E³_0: a mean above 1
    proves an improvement on those examples. The converse does not hold.

    Args:
        score: In [0, 1].
        tokens: Completion tokens of the example.
        incumbent: Where the tangent touches.

    Raises:
        InputError: A score outside [0, 1], or negative, missing or infinite tokens.
    """
    value, spent = checked_scores([score])[0], checked_tokens([tokens])[0]
    return float(2.0 * PERCENT * value / incumbent.accuracy - spent / incumbent.tokens)


def describe(comparison: Comparison) -> str:
    """Say in a plain sentence what a comparison found, of a against b, and how sure it is."""
    one = comparison
    tokens = f"tokens {_times(one.tokens_ratio, one.tokens_lower, one.tokens_upper)}"
    ratio = f"E³ {_times(one.ratio, one.lower, one.upper)}"
    if one.e3_a == one.e3_b == 0.0:
        parts = ["accuracy undecided: nothing is right on either side", tokens]
    elif one.accuracy_undecided:
        parts = ["accuracy undecided: no question differs", tokens, ratio]
    else:
        ends = one.accuracy_lower, one.accuracy_upper
        span = "" if None in ends else "{:+.1f} to {:+.1f}; ".format(*ends)
        differ = f"({span}{one.discordant} of {one.questions} differ)"
        parts = [ratio, f"accuracy {one.accuracy_difference:+.1f} points {differ}", tokens]
    sentence = f"{'; '.join(parts)}; n = {one.questions}"
    if one.questions > 1:
        sentence += f", {PERCENT * one.confidence:g} % intervals"
    if one.ratio is not None and one.questions < FEW:
        sentence += f"; below {FEW} questions an E³ ratio is biased upwards"
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
