"""The Budget Allocation Model: how tokens lower uncertainty, and the split that lowers it most.

A sub-question's uncertainty falls with its tokens as a power law, c / b^beta. The paper takes
beta >= 1; everything here holds for any beta > 0, and accepts it.

All functions work on numpy arrays of any leading (batch) shape.
"""

from typing import Literal, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_Number = TypeVar("_Number", np.float64, np.int64)

# Queries solved at a time: few enough for the arrays to stay in the processor's cache.
_BLOCK = 8192
# A Newton step this small, relative to where it ends, leaves no error that doubles could show.
_LAST_STEP = 1e-12
# More than convergence to double precision can take (see _real_optimum): 4^64 is 1e38.
_MAX_STEPS = 64
# Up to here doubles give the real optimum to far less than a token, which the whole one needs.
_MAX_WHOLE = 1e9


def epistemic_uncertainty(c: ArrayLike, beta: ArrayLike, b: ArrayLike) -> FloatArray:
    """Return the uncertainty that `b` tokens leave, c / b^beta (the paper's Eq. 1).

    Args:
        c: uncertainty after one token, above 0.
        beta: how fast tokens reduce it, above 0.
        b: tokens, at least 0; none leave infinite uncertainty.

    Returns:
        The broadcast of the three shapes.

    Raises:
        ValueError: which argument is unusable, and why.
    """
    c, beta, b = _positive("c", c), _positive("beta", beta), _numbers("b", b)
    if (b < 0).any():
        msg = "b must not be negative"
        raise ValueError(msg)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(c / b**beta)


def utility(
    c: ArrayLike,
    beta: ArrayLike,
    b: ArrayLike,
    *,
    aleatoric: ArrayLike = 0.0,
    alpha: ArrayLike = 1.0,
) -> FloatArray:
    """Return each sub-question's utility, alpha (1 - c / b^beta - aleatoric) (the paper's Eq. 3).

    Summed over the last axis it is the query's utility (Eq. 4).

    Args:
        c: uncertainty after one token, above 0.
        beta: how fast tokens reduce it, above 0.
        b: tokens, at least 0.
        aleatoric: uncertainty that no number of tokens reduces, finite.
        alpha: what certainty is worth, above 0.

    Returns:
        The broadcast of the five shapes.

    Raises:
        ValueError: which argument is unusable, and why.
    """
    noise = _numbers("aleatoric", aleatoric)
    return np.asarray(_positive("alpha", alpha) * (1 - epistemic_uncertainty(c, beta, b) - noise))


def closed_form_allocation(c: ArrayLike, beta: ArrayLike, total: ArrayLike) -> FloatArray:
    """Return the paper's allocation, b_j in proportion to (c_j beta_j)^(1 / (beta_j + 1)) (Eq. 6).

    It is optimal where all beta of a query are equal, and only there.

    Args:
        c: shape (..., m), uncertainty after one token, above 0.
        beta: broadcastable to (..., m), above 0.
        total: shape (...), tokens to split, above 0.

    Returns:
        Tokens as real numbers, shape (..., m); the last axis sums to `total`.

    Raises:
        ValueError: which argument is unusable, and why.
    """
    queries = _queries(c, beta, total)
    log_share = queries.log_gain / (queries.beta + 1)
    share = np.exp(log_share - log_share.max(axis=0))
    return queries.as_asked(share * (queries.total / share.sum(axis=0)))


@overload
def optimal_allocation(
    c: ArrayLike, beta: ArrayLike, total: ArrayLike, *, whole: Literal[False] = False
) -> FloatArray: ...
@overload
def optimal_allocation(
    c: ArrayLike, beta: ArrayLike, total: ArrayLike, *, whole: Literal[True]
) -> IntArray: ...
def optimal_allocation(
    c: ArrayLike, beta: ArrayLike, total: ArrayLike, *, whole: bool = False
) -> FloatArray | IntArray:
    """Return the allocation that leaves the least uncertainty, sum_j c_j / b_j^beta_j (Eq. 5).

    At the optimum one more token is worth the same everywhere: c_j beta_j / b_j^(beta_j + 1) is
    one multiplier lambda for all j, found as the root of sum_j b_j(lambda) = total. This holds for
    different beta too, where Eq. 6 is not optimal.

    Args:
        c: shape (..., m), uncertainty after one token, above 0.
        beta: broadcastable to (..., m), above 0.
        total: shape (...), tokens to split, above 0; with `whole`, a whole number from m to 1e9, at
            least m because a sub-question without a token would stay infinitely uncertain.
        whole: return whole tokens, the optimum among all whole allocations; of like sub-questions
            the earlier get the odd tokens.

    Returns:
        Tokens, shape (..., m), float64 or, with `whole`, int64; the last axis sums to `total`.

    Raises:
        ValueError: which argument is unusable, and why.
    """
    queries = _queries(c, beta, total)
    if whole:
        return queries.as_asked(_whole_optimum(queries))
    return queries.as_asked(_real_optimum(queries, queries.total))


class _Queries(NamedTuple):
    """Checked arguments for n queries, sub-questions first: numpy adds long rows fastest.

    `log_c`, `beta` and `log_gain` (the logarithm of c * beta) have shape (m, n), `total` (n,);
    `shape` is (..., m), that of the answer.
    """

    log_c: FloatArray
    beta: FloatArray
    log_gain: FloatArray
    total: FloatArray
    shape: tuple[int, ...]

    def as_asked(self, tokens: NDArray[_Number]) -> NDArray[_Number]:
        """Return tokens of shape (m, n) in the shape of the caller's arguments."""
        return np.ascontiguousarray(tokens.T).reshape(self.shape)


def _queries(c: ArrayLike, beta: ArrayLike, total: ArrayLike) -> _Queries:
    c, beta, total = _positive("c", c), _positive("beta", beta), _positive("total", total)
    try:
        shape = np.broadcast_shapes(c.shape, beta.shape, (*total.shape, 1))
    except ValueError as error:
        msg = f"shapes do not fit: c {c.shape}, beta {beta.shape}, total {total.shape}"
        raise ValueError(msg) from error
    if c.ndim and c.shape[-1] != shape[-1]:
        msg = f"c is for {c.shape[-1]} sub-questions along its last axis, and beta for {shape[-1]}"
        raise ValueError(msg)
    if c.ndim == 0 or shape[-1] == 0:
        msg = f"c must hold at least one sub-question along its last axis, not have shape {c.shape}"
        raise ValueError(msg)

    def sub_questions_first(values: FloatArray) -> FloatArray:
        return np.ascontiguousarray(np.broadcast_to(values, shape).reshape(-1, shape[-1]).T)

    log_c, beta = sub_questions_first(np.log(c)), sub_questions_first(beta)
    total = np.broadcast_to(total, shape[:-1]).reshape(-1)
    return _Queries(log_c, beta, log_c + np.log(beta), total, shape)


def _real_optimum(queries: _Queries, total: FloatArray) -> FloatArray:
    """Return the best real allocation of `total` (n,), shape (m, n)."""
    optimum = np.empty_like(queries.beta)
    for start in range(0, len(total), _BLOCK):
        at = np.s_[..., start : start + _BLOCK]
        optimum[at] = _by_newton(queries.log_gain[at], queries.beta[at], total[at])
    return optimum


def _by_newton(log_gain: FloatArray, beta: FloatArray, total: FloatArray) -> FloatArray:
    """Return b_j(lambda) = (c_j beta_j / lambda)^(1 / (beta_j + 1)) with sum `total`, (m, n).

    The root is sought in x = log lambda by Newton's method on

        g(x) = log sum_j s_j(x),  s_j(x) = b_j(x) / total,

    which is decreasing and convex, with slopes between -1 / (min beta + 1) and
    -1 / (max beta + 1). So every Newton step from the left of the root ends left of it, and no
    bracket is needed: |g g'| falls at least fourfold per step, since convexity gives
    g_new / g + g'_new / g' <= 1, and two positive numbers that sum to at most 1 have a product of
    at most 1/4. Usually five steps do. We start at the largest x at which one s_j alone is 1; right
    of it no s_j exceeds 1, so nothing overflows.
    """
    exponent = 1 / (beta + 1)
    log_total = np.log(total)
    x = (log_gain - log_total / exponent).max(axis=0)
    for _ in range(_MAX_STEPS):
        share = np.exp(exponent * (log_gain - x) - log_total)
        whole = share.sum(axis=0)
        step = np.log(whole) * whole / (exponent * share).sum(axis=0)
        x += step
        if (step <= _LAST_STEP * (1 + np.abs(x))).all():
            break
    share = np.exp(exponent * (log_gain - x) - log_total)
    return np.asarray(share * (total / share.sum(axis=0)))


def _whole_optimum(queries: _Queries) -> IntArray:
    """Return the best whole allocation, shape (m, n), greedily, from a start on greedy's way.

    Let f_j(b) = c_j / b^beta_j, so that token k + 1 of sub-question j gains f_j(k) - f_j(k + 1),
    and its first token gains without limit. Gains shrink with k, as f_j is convex: always taking
    the token that gains most is therefore exact.

    We may start further on. Let y be the real optimum for total - m tokens and lambda its
    multiplier, the slope -f_j'(y_j) of every j. Token floor(y_j) gains more than lambda and token
    floor(y_j) + 2 less. So floor(y_j) or one more tokens of each j gain lambda or more, together
    at most total: greedy takes them all before any other. Starting with floor(y_j), and the first
    token of each, leaves at most 2 m tokens to take.
    """
    m, total = len(queries.beta), queries.total
    if (total < m).any() or (total > _MAX_WHOLE).any() or (total % 1 != 0).any():
        msg = f"total must be whole, from {m} (one per sub-question) to 1e9, to split whole"
        raise ValueError(msg)
    # For total = m no token is spare; half a token makes each y_j less than 1, as it should be.
    start = _real_optimum(queries, np.maximum(total - m, 0.5))
    tokens = np.maximum(start.astype(np.int64), 1)
    left = total.astype(np.int64) - tokens.sum(axis=0)
    while (short := np.flatnonzero(left)).size:
        gain = _log_gain(queries.log_c[:, short], queries.beta[:, short], tokens[:, short])
        tokens[gain.argmax(axis=0), short] += 1
        left[short] -= 1
    return tokens


def _log_gain(log_c: FloatArray, beta: FloatArray, tokens: IntArray) -> FloatArray:
    """Return log(c / k^beta - c / (k + 1)^beta), free of underflow and cancellation."""
    ratio = -np.expm1(-beta * np.log1p(1 / tokens))
    return np.asarray(log_c - beta * np.log(tokens) + np.log(ratio))


def _numbers(name: str, values: ArrayLike) -> FloatArray:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        msg = f"{name} must be numbers, not {array.dtype}"
        raise ValueError(msg)
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        msg = f"{name} must be finite"
        raise ValueError(msg)
    return numbers


def _positive(name: str, values: ArrayLike) -> FloatArray:
    numbers = _numbers(name, values)
    if not (numbers > 0).all():
        msg = f"{name} must be above 0"
        raise ValueError(msg)
    return numbers
