"""Estimates difficulty: the question's level, and level and credits of its sub-questions.

It asks for no more than what the budget will be made of, since every estimate costs tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.planner.examples import EXAMPLES
from pb_graph.planner.normalize import normalize_difficulty
from pb_graph.planner.parsing import Difficulty
from pb_graph.planner.requests import estimation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pb_graph.runtime.node import NodeContext
    from pb_graph.settings import Settings
    from pb_graph.state import State, SubQuestion


async def estimate(state: State, run: NodeContext) -> State:
    """Write the level into ``query`` and grades into ``plan``, where they are not known yet."""
    query, steps = state["query"], state["plan"]
    graded = steps if _grades_matter(steps, run.settings) else []
    if not graded and (query["level"] is not None or not run.settings.budget_rule.needs_level):
        return {}
    own = run.settings.level_examples
    examples = EXAMPLES if own is None else own
    found, warnings = await run.calls.planner_with_repair(estimation(query, graded, examples))
    level, settled, notes = normalize_difficulty(found or Difficulty(), graded, query["level"])
    run.tell({"event": "estimate", "level": level, "steps": settled})
    return {
        "query": {**query, "level": level},
        "plan": settled or steps,
        "warnings": warnings + [f"estimate: {note}" for note in notes],
    }


def _grades_matter(steps: Sequence[SubQuestion], settings: Settings) -> bool:
    """Whether the split of the budget depends on grades that are not there yet."""
    return (
        settings.splits
        and settings.schedule != "uniform"
        and len(steps) > 1
        and any(step["credit"] is None for step in steps)
    )
