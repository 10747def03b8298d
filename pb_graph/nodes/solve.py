"""Solves one sub-question within its share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.errors import ModelCallError
from pb_graph.prompts import step_prompt
from pb_graph.run.run import BudgetedReply
from pb_graph.state import SolveTask, State
from pb_graph.types import Purpose, StepResult

if TYPE_CHECKING:
    from pb_graph.run.run import Run


async def solve(task: SolveTask, run: Run) -> State:
    """Add one result to ``results``; a failed call is a result, too, and the others go on."""
    index, budget, settings = task["index"], task["budget"], run.settings
    closing = task.get("closing", False)
    run.emit({"event": "step_started", "index": index, "budget": budget})
    messages = step_prompt(
        task["query"],
        settings,
        await run.style(task["query"]),
        task["plan"],
        index,
        task["results"],
        budget=budget,
        is_final=closing,
    )
    name = f"sub-question {index + 1}"
    warnings: list[str] = []
    try:
        reply = await run.call_within_budget(
            messages,
            budget,
            task["query"],
            Purpose("solve", index, task["plan"][index]["level"] or task["query"]["level"]),
            closing=closing,
            stream=closing,
        )
    except ModelCallError as failure:
        reply = BudgetedReply("", failure.tokens, "error")
        warnings.append(f"{name}: {failure}")
    result = StepResult(
        index=index,
        budget=budget,
        cap=run.cap_for(budget),
        tokens=reply.tokens,
        finish=reply.finish,
        answer=reply.text,
    )
    run.emit({"event": "step_done", **result})
    return {"results": [result], "warnings": warnings + reply.warnings(name)}
