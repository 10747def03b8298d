"""Solves one sub-question within its share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pb_graph.errors import ModelCallError
from pb_graph.models.reply import Purpose
from pb_graph.nodes.within import Outcome, cap_of, within
from pb_graph.prompts import one_step
from pb_graph.state import StepResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pb_graph.nodes.contract import Run, Steps


def solve(task: Mapping[str, Any], run: Run) -> Steps:
    """Add one result to ``results``; a failed call is a result, too, and the others go on."""
    index, budget, settings = task["index"], task["budget"], run.settings
    run.tell({"event": "step_started", "index": index, "budget": budget})
    messages = one_step(
        task["query"],
        task["plan"],
        index,
        task["results"],
        budget=budget,
        closing=task["closing"],
        unit=settings.prompt_unit,
    )
    name = f"sub-question {index + 1}"
    warnings: list[str] = []
    try:
        outcome = yield from within(
            messages,
            budget,
            settings,
            task["query"],
            Purpose("solve", index),
            final=task["closing"],
        )
    except ModelCallError as failure:
        outcome = Outcome("", failure.tokens, "error", 0)
        warnings.append(f"{name}: {failure}")
    result = StepResult(
        index=index,
        budget=budget,
        cap=cap_of(budget, settings),
        tokens=outcome.tokens,
        finish=outcome.finish,
        answer=outcome.text,
    )
    run.tell({"event": "step_done", **result})
    return {"results": [result], "warnings": warnings + outcome.notes(name)}
