"""Solve the sub-questions one by one and combine their results, or all in one call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from pb_graph import prompts
from pb_graph.errors import ModelCallError
from pb_graph.methods import METHODS
from pb_graph.run.run import BudgetedReply, Run
from pb_graph.state import SolveTask, State
from pb_graph.types import Purpose, Query, StepResult, SubQuestion


async def solve(task: SolveTask, run: Run) -> State:
    """Add one result to ``results``. A failed call is also a result; the other steps continue."""
    plan, index, share, query = task["plan"], task["index"], task["share"], task["query"]
    given = await _given(query, run, budget=share if _is_told(run) else None)
    if _is_single_step(plan, query):
        prompt = prompts.single_call_prompt(given)
    else:
        prompt = prompts.step_prompt(task, run.settings, given.style)
    purpose = Purpose("solve", index, plan[index]["level"] or query["level"])
    run.emit("step_started", index=index, share=share)
    try:
        text, tokens, finish = await run.call_within_budget(
            prompt, share, query, purpose, closing=task["closes"], compute=given.style.compute
        )
    except ModelCallError as failure:
        text, tokens, finish = "", run.spent, "error"
        run.warn(failure.code, f"sub-question {index + 1}: {failure}")
    if not text and finish != "error":
        run.warn("no_result", f"sub-question {index + 1} was cut off without a result")
    result = StepResult(
        index=index, share=share, cap=run.cap_for(share), tokens=tokens, finish=finish, answer=text
    )
    run.emit("step_done", **result)
    return {"results": [result]}


async def synthesize(state: State, run: Run) -> State:
    """Write ``answer``: the last step's own words, the parts in order, or one more capped call."""
    plan, results = state["plan"], sorted(state["results"], key=lambda result: result["index"])
    answers = [result for result in results if result["answer"]]
    if not answers:
        return {"answer": ""}
    if run.settings.synthesis == "join" and len(plan) > 1:
        if missing := len(plan) - len(answers):
            run.warn("answer_from_step", f"{missing} part(s) of the answer were not written")
        is_cut = missing or any(part["finish"] == "length" for part in answers)
        text = "\n\n".join(part["answer"].strip() for part in answers)
        return {"answer": text, "finish": "length" if is_cut else "stop"}
    last = answers[-1]
    update: State = {"answer": last["answer"], "finish": last["finish"]}
    if missing := len(plan) - len(results):
        note = f"the limit was reached before the last {missing} step(s) were asked"
        run.warn("limit_reached", note)
    elif last is results[-1] and (run.settings.synthesis != "call" or len(plan) == 1):
        return update
    elif reply := await _closing_call(state, answers, run):
        return reply.update()
    note = f"the answer of sub-question {last['index'] + 1} is used as the final answer"
    run.warn("answer_from_step", note)
    return update


async def _closing_call(state: State, answers: list[StepResult], run: Run) -> BudgetedReply | None:
    """Combine the results of the steps in one call; None, after a warning, if it fails."""
    query, plan = state["query"], state["plan"]
    cap = run.settings.synthesis_cap(query, query["budget"] or 0, len(plan))
    budget = max(1, min(cap, int(run.budget.left)))
    prompt = prompts.synthesis_prompt(await _given(query, run, budget=budget, plan=plan), answers)
    purpose = Purpose("synthesize", level=query["level"])
    try:
        reply = await run.call_within_budget(prompt, budget, query, purpose)
        if reply.text:
            return reply
        run.warn("empty_reply", "the reply was empty")
    except ModelCallError as failure:
        run.warn(failure.code, str(failure))
    return None


async def answer(state: State, run: Run) -> State:
    """Write ``answer`` by the run's method. A failed method gives an empty answer and a warning."""
    query, method = state["query"], METHODS[run.settings.method]
    plan = [] if _is_single_step(state["plan"], query) else state["plan"]
    budget, shares = query["budget"], dict(enumerate(state["shares"])) or None
    given = await _given(query, run, budget=budget, plan=plan, shares=shares)
    try:
        if method.function is None:
            is_split = method.splits and (plan or not _is_told(run))
            total = budget if method.budgets and not is_split else None
            prompt = prompts.single_call_prompt(replace(given, budget=total))
        elif method.is_prompt:
            prompt = method.function(given)
        else:
            return {"answer": "", **cast("State", await method.function(given, run))}
        purpose = Purpose("answer", level=query["level"])
        reply = await run.call_within_budget(
            prompt, budget, query, purpose, thinking=method.thinking, compute=given.style.compute
        )
        return reply.update()
    except ModelCallError as failure:
        run.warn(failure.code, str(failure))
        return {"answer": ""}


async def _given(query: Query, run: Run, **more: Any) -> prompts.MethodInput:  # noqa: ANN401
    """Return what a prompt is made of: the style is a program's own, else that of the settings."""
    settings, program, program_style = run.settings, run.context.planner_program, None
    if program is not None or run.parts.program is not None:
        program_style = (await run.parts.planner(program, run.io)).teaching
    is_free = not (run.parts.tools or run.parts.answer_type)
    style = prompts.solver_style(settings, query, program_style, is_free=is_free)
    return prompts.MethodInput(query=query, settings=settings, style=style, **more)


def _is_told(run: Run) -> bool:
    """Return whether the solver is told its budget, which lengthens short answers."""
    return run.settings.enforcement == "prompt" or run.settings.model_class == "thinking"


def _is_single_step(plan: list[SubQuestion], query: Query) -> bool:
    """Return whether a plan is the question itself, which needs no outline."""
    return [step["question"] for step in plan] == [query["question"]]
