"""The Budget Allocation Model: the split of tokens that leaves the least uncertainty.

A sub-question's uncertainty falls with its tokens b as a power law, c / b^beta (Eq. 1). The paper
takes beta >= 1; any beta above 0 will do here.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

# Halvings of the bracket, after which no double lies within it.
_STEPS = 200


def optimal_allocation(c: Sequence[float], beta: Sequence[float], total: float) -> list[float]:
    """Return the allocation that leaves the least uncertainty, sum_j c_j / b_j^beta_j (Eq. 5).

    At the optimum one more token is worth the same everywhere: c_j beta_j / b_j^(beta_j + 1) is one
    multiplier lambda for all j. Its logarithm is found by bisection, as sum_j b_j(lambda) falls
    with lambda. This holds for different beta, too, where the paper's closed form (Eq. 6) is not
    optimal.

    Args:
        c: Uncertainty of each sub-question after one token, above 0.
        beta: How fast tokens reduce it, above 0.
        total: Tokens to split, above 0.

    Returns:
        Tokens of each sub-question as real numbers; they sum to `total`.

    Raises:
        ValueError: An argument is not above 0, or the two lists differ in length.
    """
    if not c or min(*c, *beta, total) <= 0:
        msg = f"c, beta and total must be above 0, not {list(c)}, {list(beta)} and {total}"
        raise ValueError(msg)
    gains = [(log(one * b), b + 1) for one, b in zip(c, beta, strict=True)]

    def tokens_at(log_lambda: float) -> list[float]:
        return [exp((gain - log_lambda) / power) for gain, power in gains]

    # One sub-question alone would take the total at the one end, and none more than an equal share
    # at the other.
    low = max(gain - power * log(total) for gain, power in gains)
    high = max(gain - power * log(total / len(c)) for gain, power in gains)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if sum(tokens_at(middle)) > total else (low, middle)
    tokens = tokens_at(low)
    whole = sum(tokens)
    return [one / whole * total for one in tokens]
