"""Schedules: how much a sub-question counts, by its position or by its difficulty."""

from math import cos, isfinite, pi
from numbers import Real
from typing import Annotated, Literal, Self, TypedDict, Unpack, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pb_graph.budget.rules import LEVELS, Level
from pb_graph.budget.tree import whole_number

Schedule = Literal["uniform", "weighted", "linear", "polynomial", "exponential", "cosine"]
"""The schedules that position alone decides."""

_NAMES = get_args(Schedule)

MAX_POWER = 10.0
"""Steeper than this, the first sub-question of two gets 99.9 % of the budget."""


class Shape(TypedDict, total=False):
    """Parameters of schedules; `Settings` has a field for each."""

    power: float
    """Exponent of `polynomial`, above 0 and at most 10; 2 when not given."""
    gamma: float
    """Ratio of one weight to the one before in `exponential`, above 0, at most 1; 0.9."""
    epsilon: float
    """Least weight in `cosine`, at least 0; 0.1."""


def schedule_weights(name: Schedule, m: int, **shape: Unpack[Shape]) -> list[float]:
    """Return the positional weight rho_j of each of `m` sub-questions (the paper's decay table).

    With j counted from 0: `uniform` and `weighted` 1, `linear` m - j, `polynomial` (m - j)^power,
    `exponential` gamma^j, `cosine` 0.5 (1 + cos(pi j / (m - 1))) + epsilon. A plan of one
    sub-question has nothing to decay over; its cosine weight is 1.

    Args:
        name: which schedule.
        m: number of sub-questions, at least 1.
        shape: parameters, as keywords; see `Shape`.

    Returns:
        `m` weights in the order of the plan, never negative and never increasing.

    Raises:
        ValueError: for an unknown name or a value outside its range, also of a parameter that
            the named schedule does not use.
    """
    if name not in _NAMES:
        msg = f"schedule must be one of {', '.join(_NAMES)}, not {name!r}"
        raise ValueError(msg)
    m = whole_number("m", m, least=1)
    power, gamma, epsilon = _check_shape(**shape)
    match name:
        case "uniform" | "weighted":
            return [1.0] * m
        case "linear":
            return [float(m - j) for j in range(m)]
        case "polynomial":
            return [(m - j) ** power for j in range(m)]
        case "exponential":
            return [gamma**j for j in range(m)]
        case "cosine":
            return (
                [0.5 * (1 + cos(pi * j / (m - 1))) + epsilon for j in range(m)] if m > 1 else [1.0]
            )


def real_number(name: str, value: object) -> float:
    """Return `value` as a finite float; other values, bools among them, raise a ValueError."""
    # float and int come first because asking an abstract type takes ten times as long.
    if isinstance(value, bool) or not isinstance(value, (float, int, Real)) or not isfinite(value):
        msg = f"{name} must be a finite number, not {value!r}"
        raise ValueError(msg)
    return float(value)


def _check_shape(
    power: float = 2.0, gamma: float = 0.9, epsilon: float = 0.1
) -> tuple[float, float, float]:
    if not 0 < (power := real_number("power", power)) <= MAX_POWER:
        msg = f"power must be above 0 and at most {MAX_POWER:g}, not {power}"
        raise ValueError(msg)
    if not 0 < (gamma := real_number("gamma", gamma)) <= 1:
        msg = f"gamma must be above 0 and at most 1, not {gamma}"
        raise ValueError(msg)
    if (epsilon := real_number("epsilon", epsilon)) < 0:
        msg = f"epsilon must be at least 0, not {epsilon}"
        raise ValueError(msg)
    return power, gamma, epsilon


class Bam(BaseModel):
    """Parameters of the Budget Allocation Model (Eq. 1) for each difficulty level.

    A sub-question of level l keeps an epistemic uncertainty of ``c[l] / b ** beta[l]`` after b
    tokens. The defaults are an assumption, not a fit: 50 tokens leave an uncertainty of 2, 10, 35,
    50 and 60 % at the levels 1 to 5, and harder sub-questions give way more slowly (smaller beta).
    With them the paper's closed form gives the middle level most.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    c: dict[Level, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        default={1: 2500.0, 2: 1750.0, 3: 875.0, 4: 120.0, 5: 30.0},
        description="Epistemic uncertainty after one token per level, positive, no unit.",
    )
    beta: dict[Level, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        default={1: 3.0, 2: 2.5, 3: 2.0, 4: 1.4, 5: 1.0},
        description="How fast tokens reduce it per level, positive, no unit; larger is easier.",
    )

    @model_validator(mode="after")
    def _every_level(self) -> Self:
        for name in ("c", "beta"):
            if sorted(getattr(self, name)) != list(LEVELS):
                msg = f"bam.{name} needs one value for each level 1 to 5"
                raise ValueError(msg)
        return self
