"""What a question may spend, and which part of it where; and `Budget`, which many callers share.

`bam`, which needs numpy, is imported when it is first used.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from pb_graph.budget.account import Budget
from pb_graph.budget.allocation import Remainder, allocate, split
from pb_graph.budget.context import current_budget, use_budget
from pb_graph.budget.rules import LEVELS, BudgetRule, Fixed, LevelTable, PerLevel
from pb_graph.budget.schedules import Schedule, Shape, schedule_weights

if TYPE_CHECKING:
    from pb_graph.budget import bam

__all__ = [
    "LEVELS",
    "Budget",
    "BudgetRule",
    "Fixed",
    "LevelTable",
    "PerLevel",
    "Remainder",
    "Schedule",
    "Shape",
    "allocate",
    "bam",
    "current_budget",
    "schedule_weights",
    "split",
    "use_budget",
]


def __getattr__(name: str) -> ModuleType:
    if name == "bam":
        return import_module("pb_graph.budget.bam")
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
