"""Which settings the settings search may choose, and where it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from pb_graph.budget.rules import BudgetRule, Fixed, LevelTable, PerLevel
from pb_graph.settings import Schedule, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from optuna.trial import Trial

__all__ = ["REFERENCES", "SearchSpace", "scaled"]

REFERENCES = ("vanilla", "global_budget")
"""Methods without a plan. They are measured beside the others, and may win."""

_CHOICES: dict[str, tuple[str, ...]] = {
    "execution": ("stepwise", "single_pass"),
    "planning": ("two_call", "fused"),
    "enforcement": ("prompt", "cap", "force"),
    "prompt_unit": ("tokens", "words"),
}
_SCHEDULES: tuple[str, ...] = (*get_args(get_args(Schedule)[0]), "bam")
# The one number that bears on a schedule, and its range.
_SHAPES: dict[str, tuple[str, float, float]] = {
    "polynomial": ("power", 0.5, 4.0),
    "exponential": ("gamma", 0.4, 1.0),
    "cosine": ("epsilon", 0.01, 1.0),
}
_DECIMALS = 3
_BUDGET = "budget_step"
_STEPS = 4  # half powers of two either way: from a quarter of the budget to four times as much


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Plan-and-budget around settings that are given; whatever is not searched stays as there.

    Searched are schedule, power, gamma and epsilon (each with the schedule that it bears on),
    execution, planning, enforcement, prompt_unit, and the budget by a common factor, 2^(k/2) for
    k from -4 to 4, so that the budgets of the levels keep their proportions.

    Attributes:
        base: Settings of the original.
    """

    base: Settings

    def drawn(self, trial: Trial) -> Settings:
        """The settings that a trial suggests."""
        changes: dict[str, Any] = {"method": "plan_and_budget"}
        for name, choices in _CHOICES.items():
            changes[name] = trial.suggest_categorical(name, choices)
        changes["schedule"] = trial.suggest_categorical("schedule", _SCHEDULES)
        if changes["schedule"] in _SHAPES:
            name, low, high = _SHAPES[changes["schedule"]]
            changes[name] = round(trial.suggest_float(name, low, high), _DECIMALS)
        step = trial.suggest_int(_BUDGET, -_STEPS, _STEPS)
        if step:
            changes["budget"] = scaled(self.base.budget_rule, 2.0 ** (step / 2))
        return self._with(changes)

    def starts(self) -> Iterator[dict[str, Any]]:
        """The original as a trial, then its neighbours: one choice changed at a time."""
        own = self._original()
        yield own
        for name in ("execution", "planning"):
            yield from ({**own, name: other} for other in _others(own, name))
        yield {**own, _BUDGET: -2}
        yield {**own, _BUDGET: 2}
        for name in ("enforcement", "prompt_unit"):
            yield from ({**own, name: other} for other in _others(own, name))

    def joined(self, worth: Iterable[tuple[dict[str, Any], float]]) -> dict[str, Any]:
        """The original with every change that helped; of two to one choice, the better.

        Args:
            worth: Starts beside the original, and the E³ of each relative to the original's.
        """
        own = self._original()
        found = dict(own)
        for start, gain in sorted(worth, key=lambda pair: pair[1]):
            if gain > 1.0:
                found |= {name: value for name, value in start.items() if value != own[name]}
        return found

    def references(self) -> list[Settings]:
        """Methods without a plan, at the same budget."""
        return [self._with({"method": method}) for method in REFERENCES]

    def _original(self) -> dict[str, Any]:
        fields = dict(self.base)
        found: dict[str, Any] = {name: fields[name] for name in (*_CHOICES, "schedule")}
        if self.base.schedule in _SHAPES:
            name, low, high = _SHAPES[self.base.schedule]
            found[name] = min(max(fields[name], low), high)
        return found | {_BUDGET: 0}

    def _with(self, changes: dict[str, Any]) -> Settings:
        return Settings.model_validate(dict(self.base) | changes)


def scaled(rule: BudgetRule, factor: float) -> BudgetRule:
    """A rule that grants so many times as much, in whole tokens and at least one."""

    def times(tokens: int) -> int:
        return max(1, round(tokens * factor)) if tokens else 0

    if isinstance(rule, LevelTable):
        return LevelTable(tokens={level: times(tokens) for level, tokens in rule.tokens.items()})
    if isinstance(rule, PerLevel):
        return PerLevel(initial=times(rule.initial), per_level=times(rule.per_level))
    return Fixed(tokens=times(rule.tokens))


def _others(own: dict[str, Any], name: str) -> list[str]:
    return [choice for choice in _CHOICES[name] if choice != own[name]]
