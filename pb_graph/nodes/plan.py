"""Decomposes the question: ask the planner, repair once, else go on with a plan of one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pb_graph.nodes.consulted import consulted
from pb_graph.state import SubQuestion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pb_graph.nodes.contract import Run, Steps


def plan(state: Mapping[str, Any], run: Run) -> Steps:
    """Write ``plan``; when planning is fused, with levels and credits."""
    # The planner's modules load DSPy, which takes a second; a vanilla run never needs it.
    from pb_graph.planner import consultation as asking  # noqa: PLC0415
    from pb_graph.planner.examples import EXAMPLES  # noqa: PLC0415
    from pb_graph.planner.settle import settle_graded, settle_plan  # noqa: PLC0415

    query, settings = state["query"], run.settings
    fused = settings.planning == "fused" and settings.method == "plan_and_budget"
    if fused:
        ask = asking.graded_decomposition(query, settings, settings.level_examples or EXAMPLES)
    else:
        ask = asking.decomposition(query, settings)
    found, warnings = yield from consulted(ask)
    update: dict[str, Any] = {}
    if found is None:
        steps, notes = [whole_question()], ["plan: the question is solved as one step"]
    elif fused:
        level, steps, notes = settle_graded(found, settings.max_steps, query["level"])
        update["query"] = query | {"level": level}
    else:
        steps, notes = settle_plan(found, settings.max_steps)
    run.tell({"event": "plan", "steps": steps})
    return update | {"plan": steps, "warnings": warnings + notes}


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
