"""Estimates difficulty: the question's level, and level and credits of its sub-questions.

It asks for no more than what the budget will be made of, since every estimate costs tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.errors import ModelCallError
from pb_graph.planner.cleaning import grade_steps
from pb_graph.planner.parsing import Difficulty
from pb_graph.planner.requests import UnreadableReplyError, estimate_request, level_request

if TYPE_CHECKING:
    from pb_graph.run.run import Run
    from pb_graph.state import State
    from pb_graph.types import Query

_REFUSED = {400, 422}


async def estimate(state: State, run: Run) -> State:
    """Write the level into ``query`` and grades into ``plan``, where they are not known yet."""
    query, steps = state["query"], state["plan"]
    ungraded = len(steps) > 1 and any(step["credit"] is None for step in steps)
    graded = steps if run.settings.needs_credits and ungraded else []
    if not graded and (query["level"] is not None or not run.settings.budget_rule.needs_level):
        return {}
    found, warnings = (None, []) if graded else await _level_alone(query, run)
    if found is None:
        request = estimate_request(query, graded, run.settings)
        found, more = await run.ask_planner_with_repair(request)
        warnings += more
    level, settled, notes = grade_steps(found or Difficulty(), graded, query["level"])
    run.emit({"event": "estimate", "level": level, "steps": settled})
    return {
        "query": {**query, "level": level},
        "plan": settled or steps,
        "warnings": warnings + [f"estimate: {note}" for note in notes],
    }


async def _level_alone(query: Query, run: Run) -> tuple[Difficulty | None, list[str]]:
    """The level from one token; None where it is to be asked in full.

    Some models cannot answer so shortly: they think all the same, or their server refuses.
    """
    try:
        reply = await run.ask_planner(level_request(query, run.settings))
    except UnreadableReplyError:
        return None, ["estimate: no level in a reply of two tokens: asked for in full"]
    except ModelCallError as failure:
        if failure.status in _REFUSED:
            return None, [f"estimate: {failure} Asked for in full."]
        return Difficulty(), [f"estimate: {failure} Going on without."]
    return Difficulty(level=reply.value.level), []
