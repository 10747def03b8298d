"""Student's t, McNemar's exact test and Holm's correction, so that none needs SciPy at run time."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

_BISECTIONS = 200  # far more than the 60 or so that halve a bracket down to one double


def t_p_value(statistic: float, degrees: int) -> float:
    """Give the two-sided p-value of a t statistic."""
    return min(1.0, max(0.0, 1.0 - _central(abs(statistic), degrees)))


@lru_cache(maxsize=256)
def t_quantile(confidence: float, degrees: int) -> float:
    """Give the half-width, in standard errors, of a two-sided interval.

    Args:
        confidence: Coverage between 0 and 1, both excluded; 0.95 gives 1.96 for many degrees.
        degrees: Degrees of freedom, a whole number of at least 1.
    """
    low, high = 0.0, 1.0
    while _central(high, degrees) < confidence:
        low, high = high, 2.0 * high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if _central(middle, degrees) < confidence else (low, middle)
    return high


def _central(t: float, degrees: int) -> float:
    """P(|T| <= t), by the finite series for whole degrees (Abramowitz & Stegun 26.7.3, 26.7.4)."""
    angle = math.atan2(t, math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    if degrees == 1:
        return 2.0 * angle / math.pi
    term = total = cosine if odd else 1.0
    for k in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2.0 * (angle + sine * total) / math.pi if odd else sine * total


def mcnemar(only_a: int, only_b: int) -> float:
    """Give the exact two-sided p-value of McNemar's test.

    Under the null hypothesis each discordant pair falls to either side like a fair coin; the
    p-value is twice the smaller binomial tail, at most 1.
    """
    pairs = only_a + only_b
    tail = sum(math.comb(pairs, wins) for wins in range(min(only_a, only_b) + 1))
    return min(1.0, 2 * tail / (1 << pairs))


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Adjust p-values of E³ or of accuracy for their number (Holm 1979), in the order given."""
    adjusted: dict[K, float] = {}
    running = 0.0
    for place, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        running = max(running, min(1.0, p_values[name] * (len(p_values) - place)))
        adjusted[name] = running
    return {name: adjusted[name] for name in p_values}
