"""A hard total for a whole query, planning included, as settings that cannot exceed it."""

from __future__ import annotations

from pb_graph.budget.rules import LEVELS, BudgetRule, LevelTable
from pb_graph.errors import InputError
from pb_graph.methods import METHODS
from pb_graph.settings import Settings

LEAST = 16
"""Tokens of the smallest total: each call needs one at least."""

_ASKED = 2  # a planner is asked once more when its reply cannot be read


def within_total(settings: Settings, total: int) -> Settings:
    """Lower what settings allow, so that a query takes at most ``total`` completion tokens.

    The planner's calls together may take half of it, the solver's the rest. A budget that would
    only be said is enforced, since nothing else bounds what a step writes.

    Raises:
        InputError: The total is smaller than `LEAST`.
    """
    if total < LEAST:
        msg = f"a total of completion tokens is at least {LEAST}, not {total}"
        raise InputError(msg)
    planner_calls = _ASKED * (settings.plans + settings.budgets)
    planner_cap = min(settings.planner_cap, total // (2 * max(1, planner_calls)))
    solving = total - planner_calls * planner_cap
    changed: dict[str, object] = {
        "planner_cap": planner_cap,
        "cutoff": min(settings.cutoff, solving),
    }
    if settings.budgets:
        changed |= _budget_within(settings, solving)
    lowered = settings.model_copy(update=changed)
    most = METHODS[settings.method].most(lowered)
    if settings.budgets or most <= solving:
        return lowered
    calls = -(-most // lowered.cutoff)  # of a method that makes several, each within the cutoff
    return lowered.model_copy(update={"cutoff": max(1, solving // calls)})


def _budget_within(settings: Settings, most: int) -> dict[str, object]:
    """The budget, lowered to what may be spent on solving, and enforced."""
    if settings.stepwise and settings.synthesis == "call":
        most //= 2  # the closing call may get as much again
    rule, enforcement = settings.budget_rule, settings.enforcement
    budget: BudgetRule | int = min(rule.total(1), most)
    if rule.needs_level:
        budget = LevelTable(tokens={level: min(rule.total(level), most) for level in LEVELS})
    return {"budget": budget, "enforcement": "cap" if enforcement == "prompt" else enforcement}
