"""Find a question's budget by its level, and split it by schedule or by least uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import cos, exp, isfinite, log, pi
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from pb_graph.budget.bill import whole_number
from pb_graph.errors import InputError

LEVELS = range(1, 6)  # of difficulty, from 1 (easiest) to 5 (hardest)
Level = Annotated[int, Field(ge=1, le=5)]
_Tokens = Annotated[int, Field(strict=True, ge=1)]
_MaybeNoTokens = Annotated[int, Field(strict=True, ge=0)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
# The schedules that position alone decides.
ScheduleName = Literal["uniform", "weighted", "linear", "polynomial", "exponential", "cosine"]
Remainder = Literal["largest", "floor"]  # tokens that rounding down leaves are handed out, or not
# Quotas are whole millionths of a token: noise as in 0.1 + 0.2 costs no token, decides no tie.
_PARTS = 1_000_000


def _has_every_level(values: dict[int, float]) -> dict[int, float]:
    if sorted(values) != list(LEVELS):
        msg = f"must have the levels 1 to 5 and no others, not {sorted(values)}"
        raise ValueError(msg)
    return values


class LevelTable(BaseModel, frozen=True, extra="forbid"):
    """A budget for each level. The default is from the code released with the paper."""

    rule: Literal["level_table"] = Field(default="level_table", description="Name of the rule.")
    tokens: Annotated[dict[int, _Tokens], AfterValidator(_has_every_level)] = Field(
        default={1: 200, 2: 250, 3: 350, 4: 450, 5: 600}, description="Solving tokens by level."
    )
    thinking: Annotated[dict[int, _MaybeNoTokens], AfterValidator(_has_every_level)] | None = Field(
        default=None, description="Tokens for thinking, in addition, which the solver is not told."
    )

    def budget_for(self, level: int) -> int:
        """Return the solving tokens for a level from 1 to 5."""
        return self.tokens[level] + (self.thinking or {}).get(level, 0)


class PerLevel(BaseModel, frozen=True, extra="forbid"):
    """A base amount plus an amount for each level: `initial + per_level * level`."""

    rule: Literal["per_level"] = Field(default="per_level", description="Name of the rule.")
    initial: _MaybeNoTokens = Field(description="Tokens that every question gets.")
    per_level: _MaybeNoTokens = Field(description="Tokens that are added for each level.")

    def budget_for(self, level: int) -> int:
        """Return the solving tokens for a level from 1 to 5."""
        return self.initial + self.per_level * level


BudgetRule = Annotated[LevelTable | PerLevel, Field(discriminator="rule")]


class Limit(BaseModel, frozen=True, extra="forbid"):
    """The most that a question may cost, input and planning included."""

    usd: _Positive | None = Field(default=None, description="Dollars, by `prices` or genai-prices.")
    total_tokens: _Tokens | None = Field(default=None, description="Input and completion tokens.")

    @model_validator(mode="after")
    def _has_one_total(self) -> Self:
        if (self.usd is None) == (self.total_tokens is None):
            msg = "give either usd or total_tokens"
            raise ValueError(msg)
        return self


def schedule_weights(
    name: ScheduleName, m: int, *, power: float = 2.0, gamma: float = 0.9, epsilon: float = 0.1
) -> list[float]:
    """Return the positional weight rho_j of each of `m` sub-questions (the paper's decay table).

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
    weights: dict[str, Callable[[int], float]] = {
        "uniform": lambda _: 1.0,
        "weighted": lambda _: 1.0,
        "linear": lambda j: float(m - j),
        "polynomial": lambda j: float(m - j) ** power,
        "exponential": lambda j: gamma**j,
        "cosine": lambda j: 0.5 * (1 + cos(pi * j / (m - 1))) + epsilon if m > 1 else 1.0,
    }
    if name not in weights:
        msg = f"schedule must be one of {', '.join(weights)}, not {name!r}"
        raise InputError(msg)
    return [weights[name](j) for j in range(whole_number("m", m, minimum=1))]


_weights = lru_cache(schedule_weights)


def split(
    shares: Iterable[float], total: int, *, remainder: Remainder = "largest", minimum: int = 0
) -> list[int]:
    """Split `total` into whole tokens in proportion to real-valued `shares` (the paper's Eq. 7).

    Each part gets the whole tokens of its quota; then, by default, the tokens that this leaves go
    one each to the largest fractions, ties to the earlier part. A quota below `minimum`, also that
    of a share of zero, is raised to it, and what is left is re-scaled over the others, until none
    is below. If the total is too small for that, the minimum is an equal split, `total // m`.

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
    weights, total = [n / max(numbers) for n in numbers], whole_number("total", total, minimum=1)
    minimum = min(whole_number("minimum", minimum, minimum=0), total // len(numbers))
    floor, raised, before = minimum * _PARTS, 0, -1
    while raised > before:  # a round may raise more parts, but never the largest
        before, scale, left = raised, sum(weights), total * _PARTS - floor * raised
        quotas = [round(weight / scale * left) for weight in weights]
        weights = [weight if q >= floor else 0 for weight, q in zip(weights, quotas, strict=True)]
        raised = weights.count(0)
    quotas = [max(floor, quota) for quota in quotas]
    tokens = [quota // _PARTS for quota in quotas]
    if remainder == "largest":
        largest_first = sorted(range(len(quotas)), key=lambda j: quotas[j] % _PARTS, reverse=True)
        for j in largest_first[: total - sum(tokens)]:
            tokens[j] += 1
    return tokens


class Schedule(BaseModel, frozen=True, extra="forbid"):
    """A schedule with its parameters; each schedule reads its own."""

    name: Literal[ScheduleName, "bam"] = Field(description="Name of the schedule.")
    power: float = Field(default=2.0, gt=0, le=10, description="p of the polynomial schedule.")
    gamma: float = Field(default=0.9, gt=0, le=1, description="Decay of the exponential schedule.")
    epsilon: float = Field(default=0.1, ge=0, le=10, description="Floor of the cosine schedule.")
    c: Annotated[dict[Level, _Positive], AfterValidator(_has_every_level)] = Field(
        default={1: 2500.0, 2: 1750.0, 3: 875.0, 4: 120.0, 5: 30.0},
        description="For bam: uncertainty after one token, for each level; positive.",
    )
    beta: Annotated[dict[Level, _Positive], AfterValidator(_has_every_level)] = Field(
        default={1: 3.0, 2: 2.5, 3: 2.0, 4: 1.4, 5: 1.0},
        description="For bam: speed at which tokens reduce the uncertainty; positive.",
    )

    def weights(self, m: int) -> list[float]:
        """Return the positional weights of `m` sub-questions; equal ones for ``bam``."""
        name: ScheduleName = "uniform" if self.name == "bam" else self.name
        return [*_weights(name, m, power=self.power, gamma=self.gamma, epsilon=self.epsilon)]


def optimal_allocation(c: Sequence[float], beta: Sequence[float], total: float) -> list[float]:
    """Return the allocation that leaves the least uncertainty, sum_j c_j / b_j^beta_j (Eq. 5).

    At the optimum one more token has the same value everywhere: c_j beta_j / b_j^(beta_j + 1) is
    one multiplier, found by bisection. The paper's closed form (Eq. 6) is optimal for one beta.

    Args:
        c: Uncertainty of each sub-question after one token, above 0.
        beta: How fast tokens reduce it, above 0.
        total: Tokens to split, above 0.

    Returns:
        Tokens of each sub-question as real numbers; they sum to `total`.

    Raises:
        InputError: If an argument is not above 0, or the two lists differ in length.
    """
    if not c or len(c) != len(beta) or min(*c, *beta, total) <= 0:
        msg = "c, beta and total must be above 0, and c and beta of one length, not "
        msg += f"{list(c)}, {list(beta)} and {total}"
        raise InputError(msg)
    gains = [(log(a * b), b + 1) for a, b in zip(c, beta, strict=True)]
    # At `low` one sub-question takes the total; at `high` none takes more than an equal share.
    low = max(gain - power * log(total) for gain, power in gains)
    high = max(gain - power * log(total / len(c)) for gain, power in gains)
    while low < (middle := (low + high) / 2) < high:
        is_above = sum(exp((gain - middle) / power) for gain, power in gains) > total
        low, high = (middle, high) if is_above else (low, middle)
    tokens = [exp((gain - low) / power) for gain, power in gains]
    return [part / sum(tokens) * total for part in tokens]
