"""Split a budget by level and over sub-questions, and charge a block of code to a `Budget`."""

from pb_graph.budget.allocation import (
    LevelTable,
    PerLevel,
    optimal_allocation,
    schedule_weights,
    split,
)
from pb_graph.budget.scope import use_budget

__all__ = [
    "LevelTable",
    "PerLevel",
    "optimal_allocation",
    "schedule_weights",
    "split",
    "use_budget",
]
