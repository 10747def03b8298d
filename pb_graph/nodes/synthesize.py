"""Puts the final answer together: the last step's own words, or one more capped call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.errors import ModelCallError
from pb_graph.nodes.allocate import synthesis_cap
from pb_graph.prompts import synthesis_prompt
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pb_graph.run.run import Run
    from pb_graph.state import State
    from pb_graph.types import StepResult


async def synthesize(state: State, run: Run) -> State:
    """Write ``answer``.

    When the last step was to give it but came to nothing, what is left below the ceiling pays for
    one call that makes the best of the other steps.
    """
    results = sorted(state["results"], key=lambda result: result["index"])
    found = [result for result in results if result["answer"]]
    by_call = run.settings.synthesis == "call"
    missing = len(state["plan"]) - len(results)
    if not found or (found[-1] is results[-1] and not by_call and not missing):
        return _answer_of(found[-1]) if found else {"answer": ""}
    if missing:
        note = f"synthesize: the ceiling was reached before the last {missing} step(s) were asked"
        return _fallback(found, [note])
    warnings = [] if by_call else ["synthesize: the last step gave no answer; asked once more"]
    budget = min(
        synthesis_cap(state["total"] or 0, len(state["plan"]), run.settings),
        run.budget.left,
    )
    if budget < 1:
        return _fallback(found, ["synthesize: no budget left for a final call"])
    messages = synthesis_prompt(state["query"], run.settings, state["plan"], found, budget=budget)
    try:
        reply = await run.call_within_budget(
            messages, budget, state["query"], Purpose("synthesize", level=state["query"]["level"])
        )
    except ModelCallError as failure:
        return _fallback(found, [*warnings, f"synthesize: {failure}"])
    if not reply.text:
        return _fallback(found, [*warnings, "synthesize: the reply was empty"])
    return reply.update("synthesize") | {"warnings": warnings + reply.warnings("synthesize")}


def _fallback(found: Sequence[StepResult], warnings: list[str]) -> State:
    note = f"synthesize: the answer of sub-question {found[-1]['index'] + 1} stands for the whole"
    return _answer_of(found[-1]) | {"warnings": [*warnings, note]}


def _answer_of(step: StepResult) -> State:
    return {"answer": step["answer"], "finish": step["finish"]}
