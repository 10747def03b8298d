"""Split a budget: from complexity weights and a schedule to whole tokens per sub-question."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Unpack, get_args

from pb_graph.budget.schedules import Schedule, Shape, real_number, schedule_weights
from pb_graph.budget.tree import whole_number

Remainder = Literal["largest", "floor"]
"""The rule for tokens that rounding down leaves: hand them out, or leave them unspent."""

# Weights carry rounding noise: 0.1 + 0.2 + 0.3 is not 0.6. Quotas are counted in whole millionths
# of a token, so that noise neither costs a token nor decides a tie.
_PARTS = 1_000_000


def allocate(
    weights: Iterable[float],
    total: int,
    schedule: Schedule = "cosine",
    *,
    remainder: Remainder = "largest",
    minimum: int = 0,
    **shape: Unpack[Shape],
) -> list[int]:
    """Split `total` over the sub-questions by complexity and position (the paper's Eq. 7).

    b_j = floor(w_j rho_j / sum_k(w_k rho_k) * total); then, by default, the tokens that this leaves
    go one each to the largest fractions, ties to the earlier sub-question.

    Args:
        weights: Complexity w_j of each sub-question, on any scale; at least one above 0.
        total: The query's budget B in tokens, at least 1.
        schedule: How position counts; see `schedule_weights`. `uniform` ignores the weights.
        remainder: "largest" hands out every token, "floor" is the paper's rule.
        minimum: Tokens that no sub-question should get less than; see `split`.
        shape: Parameters of schedules, as keywords; see `Shape`.

    Returns:
        Tokens per sub-question, in order; they sum to `total`, under "floor" to as much as m - 1
        less.

    Raises:
        ValueError: An argument is unusable; the message names it.
    """
    complexity = _check_shares("weights", weights)
    prior = schedule_weights(schedule, len(complexity), **shape)
    if schedule == "uniform":
        complexity = prior
    shares = [w * rho for w, rho in zip(complexity, prior, strict=True)]
    if not any(shares):
        msg = f"weights are above zero only where the {schedule} schedule is zero"
        raise ValueError(msg)
    return split(shares, total, remainder=remainder, minimum=minimum)


def split(
    shares: Iterable[float], total: int, *, remainder: Remainder = "largest", minimum: int = 0
) -> list[int]:
    """Split `total` into whole tokens in proportion to real-valued `shares`.

    A quota below `minimum` is raised to it, and what is left is re-scaled over the others, until
    none is below; a share of zero is raised, too. When the total is too small to give everyone
    `minimum`, the minimum is that of an equal split, `total // m`.

    Args:
        shares: Relative size of each part, on any scale; at least one above 0.
        total: Tokens to split, at least 1.
        remainder: "largest" hands out every token, "floor" drops the fractions.
        minimum: Tokens, at least 0.

    Returns:
        Tokens per share, in order; they sum to `total`, under "floor" to as much as m - 1 less.

    Raises:
        ValueError: An argument is unusable; the message names it.
    """
    numbers = _check_shares("shares", shares)
    total = whole_number("total", total, least=1)
    minimum = min(whole_number("minimum", minimum, least=0), total // len(numbers))
    if remainder not in get_args(Remainder):
        msg = f"remainder must be one of {', '.join(get_args(Remainder))}, not {remainder!r}"
        raise ValueError(msg)
    quotas = _quotas(numbers, total, minimum)
    tokens = [quota // _PARTS for quota in quotas]
    if remainder == "largest":
        largest_first = sorted(range(len(quotas)), key=lambda j: (-(quotas[j] % _PARTS), j))
        for j in largest_first[: total - sum(tokens)]:
            tokens[j] += 1
    return tokens


def _check_shares(name: str, values: Iterable[float]) -> list[float]:
    """Return the values relative to the largest, if they are finite and none is negative."""
    numbers = [real_number(name, value) for value in values]
    if not numbers:
        msg = f"{name} must not be empty"
        raise ValueError(msg)
    if min(numbers) < 0:
        msg = f"{name} must not be negative, but one is {min(numbers)}"
        raise ValueError(msg)
    if not any(numbers):
        msg = f"{name} must not all be zero"
        raise ValueError(msg)
    return [number / max(numbers) for number in numbers]


def _quotas(shares: list[float], total: int, minimum: int) -> list[int]:
    """Return each share's part of `total`, in millionths of a token, and none below `minimum`.

    The largest part is never raised, so something always remains to scale by.
    """
    least, raised = minimum * _PARTS, set[int]()
    while True:
        left = total * _PARTS - least * len(raised)
        whole = sum(share for j, share in enumerate(shares) if j not in raised)
        quotas = [
            least if j in raised else round(share / whole * left) for j, share in enumerate(shares)
        ]
        low = {j for j, quota in enumerate(quotas) if quota < least}
        if not low:
            return quotas
        raised |= low
