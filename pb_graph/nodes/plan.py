"""Decomposes the question: ask the planner, repair once, else go on with a plan of one step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.planner.normalize import normalize_graded, normalize_plan
from pb_graph.planner.requests import decomposition, graded_decomposition
from pb_graph.state import State
from pb_graph.types import SubQuestion

if TYPE_CHECKING:
    from pb_graph.runtime.budgeted_call import NodeContext


async def plan(state: State, run: NodeContext) -> State:
    """Write ``plan``; when planning is fused, with levels and credits."""
    query, settings = state["query"], run.settings
    update: State = {}
    steps: list[SubQuestion] = []
    notes: list[str] = []
    said = (query["question"], query["reference"], query.get("conversation"))
    given = "\n".join(filter(None, said))
    if settings.planning == "fused" and settings.splits:
        request = graded_decomposition(query, settings)
        graded, warnings = await run.calls.planner_with_repair(request)
        if graded:
            level, steps, notes = normalize_graded(
                graded, settings.max_steps, query["level"], given
            )
            update["query"] = {**query, "level": level}
    else:
        found, warnings = await run.calls.planner_with_repair(decomposition(query, settings))
        if found:
            steps, notes = normalize_plan(found, settings.max_steps, given)
    if not steps:
        steps = [whole_question()]
        notes = [*notes, "plan: the question is solved as one step"]
    run.tell({"event": "plan", "steps": steps})
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
