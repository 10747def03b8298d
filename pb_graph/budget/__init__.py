"""Rules for the budget of a question and its shares; and `Budget`, which many callers share."""

from pb_graph.budget.account import Budget, Reservation, current_budget, use_budget
from pb_graph.budget.bam import optimal_allocation
from pb_graph.budget.rules import LEVELS, BudgetRule, Fixed, LevelTable, PerLevel
from pb_graph.budget.schedules import Schedule, Shape, schedule_weights
from pb_graph.budget.split import Remainder, allocate, split

__all__ = [
    "LEVELS",
    "Budget",
    "BudgetRule",
    "Fixed",
    "LevelTable",
    "PerLevel",
    "Remainder",
    "Reservation",
    "Schedule",
    "Shape",
    "allocate",
    "current_budget",
    "optimal_allocation",
    "schedule_weights",
    "split",
    "use_budget",
]
