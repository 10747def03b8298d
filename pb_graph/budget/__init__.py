"""What a question may spend, and which part of it where; and `Budget`, which many callers share.

`bam`, which needs numpy, is imported when it is first used.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from pb_graph.budget.allocation import Remainder, allocate, split
from pb_graph.budget.around import current, using
from pb_graph.budget.rules import LEVELS, BudgetRule, Fixed, LevelTable, PerLevel
from pb_graph.budget.schedules import Schedule, Shape, schedule_weights
from pb_graph.budget.shared import Budget

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
    "current",
    "schedule_weights",
    "split",
    "using",
]


def __getattr__(name: str) -> ModuleType:
    if name == "bam":
        return import_module("pb_graph.budget.bam")
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
