"""Allocation: from complexity weights and a schedule to whole tokens per sub-question."""

from collections.abc import Iterable
from typing import Literal, Unpack, get_args

from pb_graph.budget.checks import real_number, whole_number
from pb_graph.budget.schedules import Schedule, Shape, schedule_weights

Remainder = Literal["largest", "floor"]
"""What becomes of the tokens that rounding down leaves: handed out, or left unspent."""

_REMAINDERS = get_args(Remainder)

# Weights carry rounding noise: 0.1 + 0.2 + 0.3 is not 0.6, and weights times 3 are not in exactly
# the old ratio. Quotas are therefore counted in whole grains of 2^-20 token: noise, far finer than
# a grain, can neither push a quota of 20 down to 19 nor decide a tie. A power of two, because what
# sits half-way between two grains then has a denominator of at least 2^21, which ratios of
# ordinary weights do not. All arithmetic on grains is exact, in Python's integers.
_GRAINS = 1 << 20
# Shares become integers relative to the largest, fine enough for what is minute beside it.
_RESOLUTION = float(1 << 60)


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

    b_j = floor(w_j rho_j / sum_k(w_k rho_k) * total); then, by default, the tokens this leaves go
    one each to the largest fractions, ties to the earlier sub-question. `uniform` gives equal
    shares whatever the weights say, `weighted` follows them alone.

    Multiplying all weights by one factor changes nothing. Under `weighted`, a larger weight never
    gets fewer tokens.

    Args:
        weights: complexity w_j of each sub-question, on any scale; at least one above 0.
        total: the query's budget B in tokens, at least 1.
        schedule: how position counts; see `schedule_weights`.
        remainder: "largest" hands out every token, "floor" is the paper's rule.
        minimum: tokens that no sub-question should get less than; see `split`.
        shape: parameters of schedules, as keywords; see `Shape`.

    Returns:
        Tokens per sub-question, in order; they sum to `total`, under "floor" to as much as m - 1
        less.

    Raises:
        ValueError: which argument is unusable, and why.
    """
    complexity = _checked("weights", weights)
    prior = schedule_weights(schedule, len(complexity), **shape)
    complexity = prior if schedule == "uniform" else complexity
    heaviest = max(complexity)
    shares = [w / heaviest * rho for w, rho in zip(complexity, prior, strict=True)]
    if not any(shares):
        msg = f"weights are above zero only where the {schedule} schedule is zero"
        raise ValueError(msg)
    tokens = split(shares, total, remainder=remainder, minimum=minimum)
    return _in_weight_order(complexity, tokens) if schedule == "weighted" else tokens


def split(
    shares: Iterable[float], total: int, *, remainder: Remainder = "largest", minimum: int = 0
) -> list[int]:
    """Split `total` into whole tokens in proportion to real-valued `shares`.

    A quota below `minimum` is raised to it, and what is left is re-scaled over the others, until
    none is below; a share of zero is raised too. When the total is too small to give everyone
    `minimum`, the minimum is what an equal split would give, `total // m`.

    Quotas within 2^-21 token of a whole number count as that number, and fractions closer than
    2^-20 token to one another may count as tied; ties go to the earlier share.

    Args:
        shares: relative size of each part, on any scale; at least one above 0.
        total: tokens to split, at least 1.
        remainder: "largest" hands out every token, "floor" drops the fractions.
        minimum: tokens, at least 0.

    Returns:
        Tokens per share, in order; they sum to `total`, under "floor" to as much as m - 1 less.

    Raises:
        ValueError: which argument is unusable, and why.
    """
    numbers = _checked("shares", shares)
    total = whole_number("total", total, least=1)
    minimum = min(whole_number("minimum", minimum, least=0), total // len(numbers))
    if remainder not in _REMAINDERS:
        msg = f"remainder must be one of {', '.join(_REMAINDERS)}, not {remainder!r}"
        raise ValueError(msg)
    quotas = _quotas(numbers, total, minimum)
    tokens = [quota // _GRAINS for quota in quotas]
    if remainder == "largest":
        fractions = [quota % _GRAINS for quota in quotas]
        largest_first = sorted(range(len(quotas)), key=fractions.__getitem__, reverse=True)
        for j in largest_first[: total - sum(tokens)]:
            tokens[j] += 1
    return tokens


def _checked(name: str, values: Iterable[float]) -> list[float]:
    """Return the values as floats: finite, none negative, and at least one above zero."""
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
    return numbers


def _in_weight_order(weights: list[float], tokens: list[int]) -> list[int]:
    """Deal the same tokens out by weight.

    That changes something only where weights closer than a grain were treated as tied, and the
    earlier one, given the odd token, is the lighter by a hair.
    """
    heaviest_first = sorted(range(len(weights)), key=weights.__getitem__, reverse=True)
    dealt = zip(heaviest_first, sorted(tokens, reverse=True), strict=True)
    return [share for _, share in sorted(dealt)]


def _quotas(shares: list[float], total: int, minimum: int) -> list[int]:
    """Return each share's part of `total`, in grains, to the nearest, and none below `minimum`.

    The largest part is at least the mean of those not raised, hence never below `minimum`: it is
    never raised, so something always remains to scale by.
    """
    largest = max(shares)
    units = [int(share / largest * _RESOLUTION) for share in shares]
    least = minimum * _GRAINS
    raised: set[int] = set()
    while True:
        left = total * _GRAINS - least * len(raised)
        scale = sum(unit for j, unit in enumerate(units) if j not in raised)
        quotas = [
            least if j in raised else (unit * left + scale // 2) // scale
            for j, unit in enumerate(units)
        ]
        low = {j for j, quota in enumerate(quotas) if quota < least}
        if not low:
            return quotas
        raised |= low
