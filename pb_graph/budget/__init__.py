"""Define rules for the budget of a question and its shares, and the shared `Budget`."""

from pb_graph.budget.account import Budget
from pb_graph.budget.allocation import (
    LEVELS,
    BudgetRule,
    LevelTable,
    PerLevel,
    Schedule,
    optimal_allocation,
    schedule_weights,
    split,
)
from pb_graph.budget.scope import use_budget

__all__ = [
    "LEVELS",
    "Budget",
    "BudgetRule",
    "LevelTable",
    "PerLevel",
    "Schedule",
    "optimal_allocation",
    "schedule_weights",
    "split",
    "use_budget",
]
