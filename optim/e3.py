"""E³, the efficiency score A²/T: the figure, its interval, paired comparison and tangent.

A is the mean score in percent, T the mean of completion tokens per query; E³ = A²/T (the paper's
section 3). Scores lie in [0, 1], tokens are not negative, one of each per query. Everything here
refuses what would give a misleading number with an `InputError` (a ValueError) that says why.

The statistics work on log E³, whose influence of query i is psi_i = 2(a_i - A)/A - (t_i - T)/T
(delta method). Queries are independent; several samples of one question are not, so their
influences are first added up per question ("cluster"), with the factor C/(C-1) for C clusters.
Quantiles are Student's t with C - 1 degrees of freedom rather than normal ones: the standard
error is itself estimated, and with the 30 to 60 questions of a small run the normal quantile
covers a little less than it promises; for hundreds of questions the two agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from optim.influence import (
    PERCENT,
    check_confidence,
    checked_scores,
    checked_tokens,
    e3_of,
    influence,
    log_ends,
    measured,
    per_group,
    standard_error,
)
from optim.paired import Comparison, Sample, compare
from optim.significance import t_quantile
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from optim.influence import Floats, Groups

__all__ = [
    "Comparison",
    "Incumbent",
    "Interval",
    "Sample",
    "a_over_t",
    "compare",
    "e3",
    "interval",
    "smoothed_e3",
    "surrogate",
]


@dataclass(frozen=True, slots=True)
class Interval:
    """E³ with a confidence interval.

    Attributes:
        e3: The estimate.
        lower: Lower end; None when `method` is ``undefined``.
        upper: Upper end; None likewise, and when it is beyond the range of a double.
        log_se: Standard error of log E³; None when the log scale does not apply.
        confidence: Nominal coverage.
        items: Number of samples.
        clusters: Number of independent questions among them.
        method: ``delta`` on the log scale; ``zero_accuracy`` when every score is 0 (`interval`
            tells how the upper end comes about); ``undefined`` with a single question.
    """

    e3: float
    lower: float | None
    upper: float | None
    log_se: float | None
    confidence: float
    items: int
    clusters: int
    method: Literal["delta", "zero_accuracy", "undefined"]


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


def e3(scores: Sequence[float], tokens: Sequence[float]) -> float:
    """Give E³ = A²/T, in percent² per token.

    Args:
        scores: One per query, each in [0, 1].
        tokens: Completion tokens of the same queries, planning included, in the same order.

    Returns:
        0 when every score is 0.

    Raises:
        InputError: Nothing given, unequal lengths, a score outside [0, 1], negative, missing or
            infinite tokens, or no token charged at all (T = 0).
    """
    a, t = measured(scores, tokens)
    return e3_of(a, t)


def a_over_t(scores: Sequence[float], tokens: Sequence[float]) -> float:
    """Give A/T, in percentage points per token (the paper's tables print 100 times that).

    Takes and refuses the same as `e3`.
    """
    a, t = measured(scores, tokens)
    return PERCENT * float(a.mean()) / float(t.mean())


def interval(
    scores: Sequence[float],
    tokens: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Interval:
    """Give E³ with its confidence interval, by the delta method on the log scale.

    SE(log E³) = sd(psi) / sqrt(n), and the interval is E³ exp(± t SE); see the module's text for
    psi, clusters and the choice of t. A confidence interval needs two questions at least; with
    one, `lower` and `upper` are None.

    With A = 0 the log scale does not exist. Then E³ is 0, the lower end is 0 and the upper end is
    (100 p)² / T_low: p = 1 - (alpha/2)^(1/C) is the exact (Clopper-Pearson) bound on the chance of
    a score above 0 after C questions without one, and so on the mean score too; T_low is the
    lower confidence limit of T at alpha/2. Both hold at once with 1 - alpha at least.

    Args:
        scores: One per sample, each in [0, 1].
        tokens: Completion tokens of the same samples.
        clusters: The question of each sample where questions were sampled several times; None
            when every sample is a question of its own.
        confidence: Nominal coverage, between 0 and 1.

    Raises:
        InputError: What `e3` refuses, clusters of another length, or a confidence outside (0, 1).
    """
    check_confidence(confidence)
    a, t = measured(scores, tokens)
    groups = _groups(clusters, len(a))
    count = int(groups.max()) + 1
    estimate = e3_of(a, t)
    if count == 1:
        return Interval(estimate, None, None, None, confidence, len(a), count, "undefined")
    if not a.any():
        upper = _zero_accuracy_upper(t, groups, confidence)
        return Interval(0.0, 0.0, upper, None, confidence, len(a), count, "zero_accuracy")
    error = standard_error(per_group(influence(a, t), groups))
    low, high = log_ends(estimate, t_quantile(confidence, count - 1) * error)
    return Interval(estimate, low, high, error, confidence, len(a), count, "delta")


def smoothed_e3(scores: Sequence[float], tokens: Sequence[float]) -> float:
    """E³ with half a right and half a wrong pseudo-question at the mean tokens."""
    a, t = measured(scores, tokens)
    return (PERCENT * float((a.sum() + 0.5) / (len(a) + 1))) ** 2 / float(t.mean())


def accuracy_interval(
    scores: Sequence[float], *, clusters: Sequence[Hashable] | None = None
) -> tuple[float, float]:
    """Stand-in."""
    del clusters
    n, a = len(scores), sum(scores) / len(scores)
    z = 1.96
    mid, reach = a + z * z / (2 * n), z * math.sqrt(a * (1 - a) / n + z * z / (4 * n * n))
    return max(0.0, PERCENT * (mid - reach) / (1 + z * z / n)), min(
        PERCENT, PERCENT * (mid + reach) / (1 + z * z / n)
    )


def token_interval(
    tokens: Sequence[float], *, clusters: Sequence[Hashable] | None = None
) -> tuple[float | None, float | None]:
    """Stand-in."""
    del clusters
    t = np.asarray(tokens, dtype=float)
    if len(t) < 2:  # noqa: PLR2004
        return None, None
    reach = t_quantile(0.95, len(t) - 1) * float(t.std(ddof=1)) / math.sqrt(len(t)) / t.mean()
    return float(t.mean() * math.exp(-reach)), float(t.mean() * math.exp(reach))


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


def _groups(clusters: Sequence[Hashable] | None, size: int) -> Groups:
    if clusters is None:
        return np.arange(size, dtype=np.intp)
    if len(clusters) != size:
        msg = f"{size} samples but {len(clusters)} clusters: name the question of every sample"
        raise InputError(msg)
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(c, len(numbers)) for c in clusters], dtype=np.intp)


def _zero_accuracy_upper(tokens: Floats, groups: Groups, confidence: float) -> float:
    count = int(groups.max()) + 1
    alpha = 1.0 - confidence
    chance = 1.0 - math.pow(alpha / 2.0, 1.0 / count)
    mean = float(tokens.mean())
    # The limit of T on its log scale stays above 0; one-sided at alpha/2 is two-sided at alpha.
    relative = (tokens - mean) / (mean * len(tokens))
    error = standard_error(per_group(relative, groups))
    lowest = mean * math.exp(-t_quantile(confidence, count - 1) * error)
    return float((PERCENT * chance) ** 2 / lowest)
