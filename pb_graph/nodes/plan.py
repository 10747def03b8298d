"""Decomposes the question: ask the planner, repair once, else go on with a plan of one step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.planner.cleaning import clean_graded_plan, clean_plan
from pb_graph.planner.requests import decompose_request, fused_request
from pb_graph.state import State
from pb_graph.types import SubQuestion

if TYPE_CHECKING:
    from pb_graph.run.run import Run


async def plan(state: State, run: Run) -> State:
    """Write ``plan``; when planning is fused, with levels and credits."""
    query, settings = state["query"], run.settings
    update: State = {}
    steps: list[SubQuestion] = []
    notes: list[str] = []
    if settings.planning == "fused" and settings.splits_budget:
        request = fused_request(query, settings)
        graded, warnings = await run.ask_planner_with_repair(request)
        if graded:
            level, steps, notes = clean_graded_plan(graded, query, settings.max_steps)
            update["query"] = {**query, "level": level}
    else:
        found, warnings = await run.ask_planner_with_repair(decompose_request(query, settings))
        if found:
            steps, notes = clean_plan(found, query, settings.max_steps)
    if not steps:
        steps = [whole_question()]
        notes = [*notes, "plan: the question is solved as one step"]
    run.emit({"event": "plan", "steps": steps})
    return {**update, "plan": steps, "warnings": warnings + notes}


def whole_question() -> SubQuestion:
    """The plan to fall back on: one step that is the question itself."""
    return SubQuestion(
        index=0,
        question="Solve the question as a whole.",
        hint="",
        depends_on=[],
        level=None,
        credit=None,
    )
