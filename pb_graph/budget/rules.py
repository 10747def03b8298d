"""Define the limit of a run, and rules for the budget of a question of a given level."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

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
