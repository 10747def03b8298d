"""Planner programs as a tuning could have left them."""

from __future__ import annotations

from typing import Any

from pb_graph.planner.planner import Planner
from pb_graph.program import PlannerProgram
from pb_graph.settings import Settings

FRUGAL = "You plan how to solve a problem; you never solve it.\n\nUse two short sub-questions."


def planner(instructions: str = FRUGAL) -> Planner:
    """Return a planner whose decomposition prompt is tuned."""
    found = Planner()
    found.decompose.signature = found.decompose.signature.with_instructions(instructions)
    return found


def artefact(**changes: Any) -> PlannerProgram:  # noqa: ANN401 -- fields of PlannerProgram
    """Return a program with settings and a record, which is carried along unread."""
    fields: dict[str, Any] = {
        "settings": Settings(schedule="linear", plan_from=1, budget=300),
        "tuning": {"verdict": "undecided", "candidates": [{"name": "original"}]},
    }
    return planner().program().model_copy(update=fields | changes)
