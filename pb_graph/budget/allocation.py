"""Find the budget of a question by its level, and split it over sub-questions.

A split goes by schedule and complexity, or by least uncertainty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import cos, exp, isfinite, log, pi
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, Field, model_validator

from pb_graph.budget.bill import whole_number
from pb_graph.errors import InputError

LEVELS = range(1, 6)
"""Difficulty levels, from 1 (easiest) to 5 (hardest)."""

Level = Annotated[int, Field(ge=1, le=5)]
"""A difficulty level, as a field of a model."""


def _has_every_level(values: dict[int, float]) -> dict[int, float]:
    if sorted(values) != list(LEVELS):
        msg = f"must have the levels 1 to 5 and no others, not {sorted(values)}"
        raise ValueError(msg)
    return values


EveryLevel = AfterValidator(_has_every_level)
"""Marks a field with one value for each level."""

_Tokens = Annotated[int, Field(strict=True, ge=1)]
_MaybeNoTokens = Annotated[int, Field(strict=True, ge=0)]


class LevelTable(BaseModel, frozen=True, extra="forbid"):
    """A budget for each level. The default is from the code released with the paper."""

    rule: Literal["level_table"] = Field(default="level_table", description="Name of the rule.")
    tokens: Annotated[dict[int, _Tokens], EveryLevel] = Field(
        default={1: 200, 2: 250, 3: 350, 4: 450, 5: 600},
        description="Budget of a question by its level. The default is from the paper's code.",
    )
    thinking: Annotated[dict[int, _MaybeNoTokens], EveryLevel] | None = Field(
        default=None, description="Tokens for thinking, in addition, which the solver is not told."
    )

    def budget_for(self, level: int) -> int:
        """Return the solving tokens for a level from 1 to 5."""
        return self.tokens[level] + (self.thinking or {}).get(level, 0)


class PerLevel(BaseModel, frozen=True, extra="forbid"):
    """A base amount plus an amount for each level: `initial + per_level * level`."""

    rule: Literal["per_level"] = Field(default="per_level", description="Name of the rule.")
    initial: _MaybeNoTokens = Field(description="Tokens that every question gets.")
    per_level: _MaybeNoTokens = Field(
        description="Tokens added for each level: the budget is initial + per_level · level."
    )

    def budget_for(self, level: int) -> int:
        """Return the solving tokens for a level from 1 to 5."""
        return self.initial + self.per_level * level


BudgetRule = Annotated[LevelTable | PerLevel, Field(discriminator="rule")]
"""Either of the two; the field `rule` says which."""


class Limit(BaseModel, frozen=True, extra="forbid"):
    """The most that a question may cost, input and planning included."""

    usd: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Dollars, by the prices of the graph or of genai-prices.",
    )
    total_tokens: _Tokens | None = Field(default=None, description="Input and completion tokens.")

    @model_validator(mode="after")
    def _has_one_total(self) -> Self:
        if (self.usd is None) == (self.total_tokens is None):
            msg = "give either usd or total_tokens"
            raise ValueError(msg)
        return self


ScheduleName = Literal["uniform", "weighted", "linear", "polynomial", "exponential", "cosine"]
"""The schedules that position alone decides."""

Remainder = Literal["largest", "floor"]
"""The rule for tokens that rounding down leaves: hand them out, or leave them unspent."""

# Weights carry rounding noise: 0.1 + 0.2 + 0.3 is not 0.6. Quotas are counted in whole millionths
# of a token, so that noise neither costs a token nor decides a tie.
_PARTS = 1_000_000
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def schedule_weights(
    name: ScheduleName, m: int, *, power: float = 2.0, gamma: float = 0.9, epsilon: float = 0.1
) -> list[float]:
    """Return the positional weight rho_j of each of `m` sub-questions (the paper's decay table).

    With j counted from 0: `uniform` and `weighted` 1, `linear` m - j, `polynomial` (m - j)^power,
    `exponential` gamma^j, `cosine` 0.5 (1 + cos(pi j / (m - 1))) + epsilon. A plan of one
    sub-question has nothing to decay over; its cosine weight is 1.

    Args:
        name: Name of the schedule.
        m: Number of sub-questions, at least 1.
        power: Exponent of `polynomial`, above 0.
        gamma: Ratio of one weight to the one before in `exponential`, above 0, at most 1.
        epsilon: Least weight in `cosine`, at least 0.

    Returns:
        `m` weights in the order of the plan, never negative and never increasing.

    Raises:
        InputError: If the schedule is unknown, or `m` is not a whole number of at least 1.
    """
    if name not in get_args(ScheduleName):
        msg = f"schedule must be one of {', '.join(get_args(ScheduleName))}, not {name!r}"
        raise InputError(msg)
    whole_number("m", m, minimum=1)
    match name:
        case "uniform" | "weighted":
            return [1.0] * m
        case "linear":
            return [float(m - j) for j in range(m)]
        case "polynomial":
            return [float(m - j) ** power for j in range(m)]
        case "exponential":
            return [gamma**j for j in range(m)]
        case "cosine":
            last = m - 1
            return [0.5 * (1 + cos(pi * j / last)) + epsilon for j in range(m)] if last else [1.0]


def split(
    shares: Iterable[float], total: int, *, remainder: Remainder = "largest", minimum: int = 0
) -> list[int]:
    """Split `total` into whole tokens in proportion to real-valued `shares` (the paper's Eq. 7).

    Each part gets the whole tokens of its quota; then, by default, the tokens that this leaves go
    one each to the largest fractions, ties to the earlier part.

    A quota below `minimum` is raised to it, and what is left is re-scaled over the others, until
    none is below; a share of zero is raised, too. When the total is too small to give everyone
    `minimum`, the minimum is that of an equal split, `total // m`.

    Args:
        shares: Relative size of each part, on any scale; at least one above 0.
        total: Tokens to split, at least 1.
        remainder: "largest" hands out every token, "floor" is the paper's rule.
        minimum: Tokens, at least 0.

    Returns:
        Tokens per share, in order; they sum to `total`, under "floor" to as much as m - 1 less.

    Raises:
        InputError: If an argument is unusable; the message names it.
    """
    numbers = [*shares]
    if not any(numbers) or not all(isfinite(number) and number >= 0 for number in numbers):
        msg = f"shares must be finite numbers of at least 0, and one above 0, not {numbers}"
        raise InputError(msg)
    largest = max(numbers)
    total = whole_number("total", total, minimum=1)
    minimum = min(whole_number("minimum", minimum, minimum=0), total // len(numbers))
    quotas = _quotas([number / largest for number in numbers], total, minimum)
    tokens = [quota // _PARTS for quota in quotas]
    if remainder == "largest":
        largest_first = sorted(range(len(quotas)), key=lambda j: (-(quotas[j] % _PARTS), j))
        for j in largest_first[: total - sum(tokens)]:
            tokens[j] += 1
    return tokens


def _quotas(shares: list[float], total: int, minimum: int) -> list[int]:
    """Return the part of `total` for each share, in millionths of a token and at least `minimum`.

    The largest part is never raised, so something always remains to scale by.
    """
    floor, raised = minimum * _PARTS, set[int]()
    while True:
        left = total * _PARTS - floor * len(raised)
        scale = sum(share for j, share in enumerate(shares) if j not in raised)
        quotas = [
            floor if j in raised else round(share / scale * left) for j, share in enumerate(shares)
        ]
        low = {j for j, quota in enumerate(quotas) if quota < floor}
        if not low:
            return quotas
        raised |= low


class Schedule(BaseModel, frozen=True, extra="forbid"):
    """A schedule with its parameters; each schedule reads its own.

    For ``bam``, the Budget Allocation Model (Eq. 1), a sub-question of level l keeps an uncertainty
    of ``c[l] / b ** beta[l]`` after b tokens. The defaults are an assumption, not a fit: 50 tokens
    leave 2, 10, 35, 50 and 60 % at the levels 1 to 5.
    """

    name: Literal[ScheduleName, "bam"] = Field(description="Name of the schedule.")
    power: float = Field(default=2.0, gt=0, le=10, description="p of the polynomial schedule.")
    gamma: float = Field(default=0.9, gt=0, le=1, description="Decay of the exponential schedule.")
    epsilon: float = Field(default=0.1, ge=0, le=10, description="Floor of the cosine schedule.")
    c: Annotated[dict[Level, _Positive], EveryLevel] = Field(
        default={1: 2500.0, 2: 1750.0, 3: 875.0, 4: 120.0, 5: 30.0},
        description="For bam: uncertainty after one token, for each level; positive.",
    )
    beta: Annotated[dict[Level, _Positive], EveryLevel] = Field(
        default={1: 3.0, 2: 2.5, 3: 2.0, 4: 1.4, 5: 1.0},
        description="For bam: speed at which tokens reduce the uncertainty; positive.",
    )

    def weights(self, m: int) -> list[float]:
        """Return the positional weights of `m` sub-questions; equal ones for ``bam``."""
        name: ScheduleName = "uniform" if self.name == "bam" else self.name
        return schedule_weights(name, m, power=self.power, gamma=self.gamma, epsilon=self.epsilon)


def optimal_allocation(c: Sequence[float], beta: Sequence[float], total: float) -> list[float]:
    """Return the allocation that leaves the least uncertainty, sum_j c_j / b_j^beta_j (Eq. 5).

    At the optimum one more token has the same value everywhere: c_j beta_j / b_j^(beta_j + 1) is
    one multiplier lambda for all j. Its logarithm is found by bisection, because sum_j b_j(lambda)
    falls with lambda. This also holds for different beta, where the paper's closed form (Eq. 6) is
    not optimal. The paper assumes beta >= 1; here any beta above 0 is allowed.

    Args:
        c: Uncertainty of each sub-question after one token, above 0.
        beta: How fast tokens reduce it, above 0.
        total: Tokens to split, above 0.

    Returns:
        Tokens of each sub-question as real numbers; they sum to `total`.

    Raises:
        InputError: If an argument is not above 0, or the two lists differ in length.
    """
    if not c or min(*c, *beta, total) <= 0:
        msg = f"c, beta and total must be above 0, not {list(c)}, {list(beta)} and {total}"
        raise InputError(msg)
    gains = [(log(a * b), b + 1) for a, b in zip(c, beta, strict=True)]

    def tokens_at(log_lambda: float) -> list[float]:
        return [exp((gain - log_lambda) / power) for gain, power in gains]

    # At `low` one sub-question alone takes the total; at `high` none takes more than an equal
    # share.
    low = max(gain - power * log(total) for gain, power in gains)
    high = max(gain - power * log(total / len(c)) for gain, power in gains)
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if sum(tokens_at(middle)) > total else (low, middle)
    tokens = tokens_at(low)
    scale = sum(tokens)
    return [part / scale * total for part in tokens]
