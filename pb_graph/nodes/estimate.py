"""Estimates difficulty: the question's level, and level and credits of its sub-questions.

It asks for no more than what the budget will be made of, since every estimate costs tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pb_graph.nodes.consulted import consulted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pb_graph.nodes.contract import Run, Steps
    from pb_graph.settings import Settings
    from pb_graph.state import SubQuestion


def estimate(state: Mapping[str, Any], run: Run) -> Steps:
    """Write the level into ``query`` and grades into ``plan``, where they are not known yet."""
    query, steps = state["query"], state["plan"]
    graded = steps if _grades_matter(steps, run.settings) else []
    if not graded and (query["level"] is not None or not run.settings.budget_rule.needs_level):
        return {}
    from pb_graph.planner.consultation import estimation  # noqa: PLC0415 -- loads DSPy
    from pb_graph.planner.examples import EXAMPLES  # noqa: PLC0415
    from pb_graph.planner.reading import Difficulty  # noqa: PLC0415
    from pb_graph.planner.settle import settle_difficulty  # noqa: PLC0415

    found, warnings = yield from consulted(
        estimation(query, graded, run.settings.level_examples or EXAMPLES)
    )
    level, settled, notes = settle_difficulty(found or Difficulty(), graded, query["level"])
    run.tell({"event": "estimate", "level": level, "steps": settled})
    return {
        "query": query | {"level": level},
        "plan": settled or steps,
        "warnings": warnings + [f"estimate: {note}" for note in notes],
    }


def _grades_matter(steps: Sequence[SubQuestion], settings: Settings) -> bool:
    """Whether the split of the budget depends on grades that are not there yet."""
    return (
        settings.method == "plan_and_budget"
        and settings.schedule != "uniform"
        and len(steps) > 1
        and any(step["credit"] is None for step in steps)
    )
