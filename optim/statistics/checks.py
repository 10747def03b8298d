"""Scores, tokens and the like as arrays; what would give a misleading number is refused."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pb_graph.errors import InputError

Floats: TypeAlias = NDArray[np.float64]
Groups: TypeAlias = NDArray[np.intp]


def measured(scores: Sequence[float], tokens: Sequence[float]) -> tuple[Floats, Floats]:
    """Check scores and tokens of the same queries and give them as arrays of shape (n,)."""
    a, t = checked_scores(scores), checked_tokens(tokens)
    if len(a) != len(t):
        msg = f"{len(a)} scores but {len(t)} tokens: give one of each per query, in the same order"
        raise InputError(msg)
    if not t.any():
        msg = "no query was charged any token, so E³ is undefined; check that usage is measured"
        raise InputError(msg)
    return a, t


def checked_scores(values: Sequence[float]) -> Floats:
    """Give scores as an array; refuse what is missing or outside [0, 1]."""
    scores = _numbers(values, "score")
    outside = ~((scores >= 0.0) & (scores <= 1.0))  # also catches NaN
    if outside.any():
        at = int(outside.argmax())
        msg = (
            f"score {at} is {float(scores[at])!r}: scores lie in [0, 1], not in percent, and a "
            "missing one is not NaN; score a failed query 0 with the tokens it spent, or leave it "
            "out"
        )
        raise InputError(msg)
    return scores


def checked_tokens(values: Sequence[float]) -> Floats:
    """Give tokens as an array; refuse what is missing, infinite or negative."""
    tokens = _numbers(values, "token count")
    outside = ~(np.isfinite(tokens) & (tokens >= 0.0))
    if outside.any():
        at = int(outside.argmax())
        msg = (
            f"token count {at} is {float(tokens[at])!r}: give the completion tokens charged for "
            "that query, 0 or more; a query whose tokens are unknown must be left out or measured"
        )
        raise InputError(msg)
    return tokens


def check_confidence(confidence: float) -> None:
    """Refuse a nominal coverage outside (0, 1)."""
    if not 0.0 < confidence < 1.0:
        msg = f"confidence lies between 0 and 1, such as 0.95, not {confidence!r}"
        raise InputError(msg)


def _numbers(values: Sequence[float], what: str) -> Floats:
    try:
        numbers = np.asarray(list(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"each {what} must be a number: {error}"
        raise InputError(msg) from error
    if numbers.ndim != 1 or not numbers.size:
        msg = f"give at least one {what}, as a flat sequence"
        raise InputError(msg)
    return numbers


def numbered(clusters: Sequence[Hashable] | None, size: int) -> Groups:
    """Number the questions from 0 on, in order of first appearance."""
    if clusters is None:
        return np.arange(size, dtype=np.intp)
    if len(clusters) != size:
        msg = f"{size} samples but {len(clusters)} clusters: name the question of every sample"
        raise InputError(msg)
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(c, len(numbers)) for c in clusters], dtype=np.intp)
