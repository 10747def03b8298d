"""Validated arrays of scores and tokens, and the distributions that the statistics need."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, stdtr, stdtrit

from pb_graph.errors import InputError

Floats: TypeAlias = NDArray[np.float64]
Groups: TypeAlias = NDArray[np.intp]
K = TypeVar("K", bound=Hashable)


def validate_answers(scores: Sequence[float], tokens: Sequence[float]) -> tuple[Floats, Floats]:
    """Return scores and tokens of the same answers as arrays of shape (n,).

    Raises:
        InputError: Unequal lengths, an invalid value, or no token at all.
    """
    a, t = validate_scores(scores), validate_tokens(tokens)
    if len(a) != len(t):
        msg = f"{len(a)} scores but {len(t)} tokens: give one of each per query, in the same order"
        raise InputError(msg)
    if not t.any():
        msg = "no query was charged any token, so E³ is undefined; check that usage is measured"
        raise InputError(msg)
    return a, t


def validate_scores(values: Sequence[float]) -> Floats:
    """Return scores as an array; raise `InputError` if one is missing or outside [0, 1]."""
    return _within(values, 1.0, "scores lie in [0, 1], not in percent")


def validate_tokens(values: Sequence[float]) -> Floats:
    """Return tokens as an array; raise `InputError` if one is missing, infinite or negative."""
    return _within(values, sys.float_info.max, "the tokens of a query are known and 0 or more")


def _within(values: Sequence[float], most: float, rule: str) -> Floats:
    numbers = np.array(values, dtype=np.float64)
    outside = numbers[~((numbers >= 0.0) & (numbers <= most))]  # NaN is outside, too
    if not numbers.size or outside.size:
        msg = f"{rule}: got {f'{outside[0]:g}' if outside.size else 'none'}"
        raise InputError(msg)
    return numbers


def check_confidence(confidence: float) -> None:
    """Raise `InputError` if a nominal coverage is outside (0, 1)."""
    if not 0.0 < confidence < 1.0:
        msg = f"confidence must lie between 0 and 1, such as 0.95, not {confidence!r}"
        raise InputError(msg)


def cluster_ids(clusters: Sequence[Hashable] | None, size: int) -> Groups:
    """Return the number of each sample's cluster, from 0 on, in order of first appearance."""
    if clusters is None:
        return np.arange(size, dtype=np.intp)
    ids: dict[Hashable, int] = {}
    return np.array([ids.setdefault(c, len(ids)) for c in clusters], dtype=np.intp)


def t_quantile(confidence: float, degrees: int) -> float:
    """Return the half-width of a two-sided t interval, in standard errors."""
    return float(stdtrit(degrees, (1.0 + confidence) / 2.0))


def t_p_value(statistic: float, degrees: int) -> float:
    """Return the two-sided p-value of a t statistic."""
    return min(1.0, 2.0 * float(stdtr(degrees, -abs(statistic))))


def mcnemar(only_a: int, only_b: int) -> float:
    """Return the exact two-sided p-value of McNemar's test from the two discordant counts."""
    pairs = only_a + only_b
    return min(1.0, 2.0 * float(bdtr(min(only_a, only_b), pairs, 0.5))) if pairs else 1.0


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Return p-values adjusted for their number by Holm's method (1979), in the order given."""
    adjusted: dict[K, float] = {}
    running = 0.0
    for place, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        running = max(running, min(1.0, p_values[name] * (len(p_values) - place)))
        adjusted[name] = running
    return {name: adjusted[name] for name in p_values}
