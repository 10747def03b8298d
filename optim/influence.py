"""What the statistics of E³ share: checked input, influences, and their standard error.

The influence of sample i on log E³ is psi_i / n with psi_i = 2(a_i - A)/A - (t_i - T)/T (delta
method on log E³ = 2 log A - log T).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats: TypeAlias = NDArray[np.float64]
Groups: TypeAlias = NDArray[np.intp]

PERCENT = 100.0
_LARGEST_LOG = 600.0  # leaves room for an estimate that is large itself


def measured(scores: Sequence[float], tokens: Sequence[float]) -> tuple[Floats, Floats]:
    """Check scores and tokens of the same queries and give them as arrays of shape (n,)."""
    a, t = checked_scores(scores), checked_tokens(tokens)
    if len(a) != len(t):
        msg = f"{len(a)} scores but {len(t)} tokens: give one of each per query, in the same order"
        raise InputError(msg)
    _check_spent(t)
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


def _check_spent(tokens: Floats) -> None:
    """Refuse tokens that are all 0: T would divide by nothing."""
    if not tokens.any():
        msg = "no query was charged any token, so E³ is undefined; check that usage is measured"
        raise InputError(msg)


def check_confidence(confidence: float) -> None:
    """Refuse a nominal coverage outside (0, 1)."""
    if not 0.0 < confidence < 1.0:
        msg = f"confidence lies between 0 and 1, such as 0.95, not {confidence!r}"
        raise InputError(msg)


def e3_of(scores: Floats, tokens: Floats) -> float:
    """E³ of checked arrays: (mean score in percent)² over mean tokens."""
    return float((PERCENT * scores.mean()) ** 2 / tokens.mean())


def influence(scores: Floats, tokens: Floats) -> Floats:
    """Influence of each sample on log E³: psi_i / n."""
    mean_score, mean_tokens = scores.mean(), tokens.mean()
    psi = 2.0 * (scores - mean_score) / mean_score - (tokens - mean_tokens) / mean_tokens
    return np.asarray(psi / len(scores), dtype=np.float64)


def per_group(values: Floats, groups: Groups) -> Floats:
    """Sum the values of each group, shape (groups,)."""
    return np.bincount(groups, weights=values).astype(np.float64)


def standard_error(influences: Floats) -> float:
    """sqrt(C/(C-1) * sum of squares), for influences of C independent units that sum to 0."""
    count = len(influences)
    return math.sqrt(count / (count - 1) * float(influences @ influences))


def log_ends(estimate: float, reach: float) -> tuple[float, float | None]:
    """Ends of an interval that reaches `reach` to both sides of log(estimate).

    Two questions at a confidence near 1 can reach beyond the range of a double: then there is no
    upper end (None).
    """
    if reach > _LARGEST_LOG:
        return 0.0, None
    return estimate * math.exp(-reach), estimate * math.exp(reach)
