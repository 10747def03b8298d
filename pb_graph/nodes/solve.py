"""Solves: one sub-question at a time and what they come to, or the whole question in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.errors import ModelCallError
from pb_graph.methods import METHODS, MethodInput
from pb_graph.nodes.allocate import lower_ceiling, solving_bound, synthesis_cap
from pb_graph.prompts import single_call_prompt, step_prompt, synthesis_prompt
from pb_graph.run.run import BudgetedReply
from pb_graph.types import Purpose, ReportWarning, StepResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pb_graph.prompts import PromptMessage
    from pb_graph.run.run import Run
    from pb_graph.state import SolveTask, State
    from pb_graph.types import Query, SubQuestion


async def solve(task: SolveTask, run: Run) -> State:
    """Add one result to ``results``; a failed call is a result, too, and the others go on."""
    index, budget = task["index"], task["budget"]
    is_final = task.get("closing", False)
    run.emit({"event": "step_started", "index": index, "budget": budget})
    name = f"sub-question {index + 1}"
    warnings: list[ReportWarning] = []
    try:
        reply = await run.call_within_budget(
            await _prompt(task, run, is_final=is_final),
            budget,
            task["query"],
            Purpose("solve", index, task["plan"][index]["level"] or task["query"]["level"]),
            closing=is_final,
            stream=is_final,
        )
    except ModelCallError as failure:
        reply = BudgetedReply("", failure.tokens, "error")
        warnings.append(ReportWarning(code="call_failed", message=f"{name}: {failure}"))
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


async def synthesize(state: State, run: Run) -> State:
    """Write ``answer``: the last step's own words, or one more capped call.

    When the last step was to give the answer but came to nothing, what is left below the ceiling
    pays for one call that makes the best of the other steps.
    """
    plan = state["plan"]
    results = sorted(state["results"], key=lambda result: result["index"])
    found = [result for result in results if result["answer"]]
    by_call = run.settings.synthesis == "call" and len(plan) > 1
    missing = len(plan) - len(results)
    if not found or (found[-1] is results[-1] and not by_call and not missing):
        return _answer_of(found[-1]) if found else {"answer": ""}
    if missing:
        note = f"synthesize: the ceiling was reached before the last {missing} step(s) were asked"
        return _fallback(found, ReportWarning(code="ceiling_reached", message=note))
    warnings: list[ReportWarning] = []
    if not by_call:
        note = "synthesize: the last step gave no answer; asked once more"
        warnings.append(ReportWarning(code="empty_reply", message=note))
    budget = min(
        synthesis_cap(state["total"] or 0, len(plan), run.settings),
        int(run.budget.left),
    )
    if budget < 1:
        note = "synthesize: no budget left for a final call"
        return _fallback(found, ReportWarning(code="no_budget_left", message=note))
    messages = synthesis_prompt(state["query"], run.settings, plan, found, budget=budget)
    try:
        reply = await run.call_within_budget(
            messages, budget, state["query"], Purpose("synthesize", level=state["query"]["level"])
        )
    except ModelCallError as failure:
        failed = ReportWarning(code="call_failed", message=f"synthesize: {failure}")
        return _fallback(found, *warnings, failed)
    if not reply.text:
        empty = ReportWarning(code="empty_reply", message="synthesize: the reply was empty")
        return _fallback(found, *warnings, empty)
    return reply.update("synthesize") | {"warnings": warnings + reply.warnings("synthesize")}


async def answer(state: State, run: Run) -> State:
    """Write ``answer`` by the run's method; one that failed is empty, and the warnings say why."""
    method, query = METHODS[run.settings.method], state["query"]
    given = MethodInput(
        query=query,
        settings=run.settings,
        style=await run.style(query),
        budget=state["total"],
        plan=() if _is_single_step(state["plan"], query) else state["plan"],
        shares={int(index): share for index, share in state["shares"].items()} or None,
    )
    update: State = {"answer": ""}
    if state["total"] is None and state["charges"]:  # planning may have cost less than its bound
        update["ceiling"] = lower_ceiling(state, solving_bound(run.settings, query, None, 1))
    try:
        if not method.is_prompt:
            made: State = await method.function(given, run)
            return update | made
        reply = await run.call_within_budget(
            method.function(given),
            given.budget,
            query,
            Purpose("answer", level=query["level"]),
            thinking=method.thinking,
        )
        return update | reply.update()
    except ModelCallError as failure:
        failed = ReportWarning(code="call_failed", message=f"answer: {failure}")
        return update | {"warnings": [failed]}


def _is_single_step(plan: Sequence[SubQuestion], query: Query) -> bool:
    """Return whether a plan is the question itself, which needs no outline."""
    return [step["question"] for step in plan] == [query["question"]]


async def _prompt(task: SolveTask, run: Run, *, is_final: bool) -> list[PromptMessage]:
    query, settings, budget = task["query"], run.settings, task["budget"]
    style = await run.style(query)
    if _is_single_step(task["plan"], query):
        said = budget if settings.enforcement == "prompt" else None
        return single_call_prompt(query, settings, style, budget=said)
    return step_prompt(
        query,
        settings,
        style,
        task["plan"],
        task["index"],
        task["results"],
        budget=budget,
        is_final=is_final,
    )


def _fallback(found: Sequence[StepResult], *warnings: ReportWarning) -> State:
    note = f"synthesize: the answer of sub-question {found[-1]['index'] + 1} stands for the whole"
    taken = ReportWarning(code="answer_from_step", message=note)
    return _answer_of(found[-1]) | {"warnings": [*warnings, taken]}


def _answer_of(step: StepResult) -> State:
    return {"answer": step["answer"], "finish": step["finish"]}
