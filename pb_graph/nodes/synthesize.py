"""Puts the final answer together: the last step's own words, or one more capped call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pb_graph.budget.ledger import spent
from pb_graph.errors import ModelCallError
from pb_graph.models.reply import Purpose
from pb_graph.nodes.allocate import synthesis_cap
from pb_graph.nodes.within import within
from pb_graph.prompts import put_together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pb_graph.nodes.contract import Run, Steps
    from pb_graph.state import StepResult


def synthesize(state: Mapping[str, Any], run: Run) -> Steps:
    """Write ``answer``.

    When the last step was to give it but came to nothing, what is left below the ceiling pays for
    one call that makes the best of the other steps.
    """
    results = sorted(state["results"], key=lambda result: result["index"])
    found = [result for result in results if result["answer"]]
    by_call = run.settings.synthesis == "call"
    if not found or (found[-1] is results[-1] and not by_call):
        return {"answer": found[-1]["answer"] if found else ""}
    warnings = [] if by_call else ["synthesize: the last step gave no answer; asked once more"]
    budget = min(
        synthesis_cap(state["budget"], len(state["plan"]), run.settings),
        state["ceiling"] - spent(state["charges"]),
    )
    if budget < 1:
        return _fallback(found, ["synthesize: no budget left for a final call"])
    messages = put_together(
        state["query"], state["plan"], found, budget=budget, unit=run.settings.prompt_unit
    )
    try:
        outcome = yield from within(
            messages, budget, run.settings, state["query"], Purpose("synthesize"), final=True
        )
    except ModelCallError as failure:
        return _fallback(found, [*warnings, f"synthesize: {failure}"])
    if not outcome.text:
        return _fallback(found, [*warnings, "synthesize: the reply was empty"])
    return {"answer": outcome.text, "warnings": warnings + outcome.notes("synthesize")}


def _fallback(found: Sequence[StepResult], warnings: list[str]) -> dict[str, Any]:
    note = f"synthesize: the answer of sub-question {found[-1]['index'] + 1} stands for the whole"
    return {"answer": found[-1]["answer"], "warnings": [*warnings, note]}
