"""Find the level of the question, decompose it, and grade its sub-questions.

Nothing is asked that bears on neither the plan nor the budget, and all planner calls of a question
share one part of its ceiling.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from pb_graph.budget.account import Budget
from pb_graph.budget.ledger import most_billed
from pb_graph.budget.scope import available_tokens, use_budget
from pb_graph.errors import ModelCallError
from pb_graph.planner.cleaning import ALL_CREDITS, clean_plan, grade_steps
from pb_graph.planner.parsing import Difficulty
from pb_graph.planner.requests import (
    UnreadableReplyError,
    estimate_request,
    level_request,
    plan_request,
)
from pb_graph.types import Query, SubQuestion

if TYPE_CHECKING:
    from pb_graph.run.run import Run
    from pb_graph.state import State


async def plan(state: State, run: Run) -> State:
    """Write the level into ``query``, and ``plan``; below ``plan_from`` a plan of one step."""
    settings, query = run.settings, state["query"]
    update: State = {}
    steps: list[SubQuestion] = []
    with _planning(state):
        if settings.needs_level and query["level"] is None:
            update = await _level_update(state, [], run)
            query = update["query"]
        if settings.is_planned(query["level"]):
            steps = await _decompose(query, run)
    plan = steps or [single_step(query)]
    run.emit("plan", steps=plan)
    return {**update, "plan": plan}


async def estimate(state: State, run: Run) -> State:
    """Write the level into ``query`` and grades into ``plan``, where they are not known yet."""
    settings, plan = run.settings, state["plan"]
    needs_grades = settings.needs_credits and len(plan) > 1
    ungraded = plan if needs_grades and any(step["credit"] is None for step in plan) else []
    if not ungraded and (state["query"]["level"] is not None or not settings.needs_level):
        return {}
    with _planning(state):
        return await _level_update(state, ungraded, run)


def single_step(query: Query) -> SubQuestion:
    """Return the plan of one step: the question itself."""
    return SubQuestion(
        index=0,
        question=query["question"],
        hint="",
        depends_on=[],
        level=query["level"],
        credit=ALL_CREDITS,
    )


def _planning(state: State) -> AbstractContextManager[None]:
    """Open what planning may cost, less what it has cost, below the accounts around it."""
    bound = max(1, state["planning_bound"])
    account = Budget(max(1, min(bound, available_tokens(2 * bound) // 2)))
    account.charge(most_billed(state["charges"]))
    return use_budget(account)


async def _decompose(query: Query, run: Run) -> list[SubQuestion]:
    """Return the sub-questions; none where the planner finds fewer than two."""
    graded = run.settings.planning == "fused" and run.settings.splits_budget
    request = plan_request(query, run.settings, graded=graded)
    found, steps = await run.ask_planner_with_repair(request), list[SubQuestion]()
    if found:
        steps, notes = clean_plan(found, query, run.settings.max_steps)
        for note in notes:
            run.warn(**note)
    if len(steps) > 1:
        return steps
    run.warn("single_step", "the question is solved as one step")
    return []


async def _level_update(state: State, steps: list[SubQuestion], run: Run) -> State:
    """Estimate the level of the question and the grades of its steps, and return the update."""
    query, source = state["query"], state["level_source"] or "estimated"
    found = None if steps else await _level_alone(query, run)
    if found is None:
        request = estimate_request(query, steps, run.settings)
        found = await run.ask_planner_with_repair(request) or Difficulty()
    level, graded, notes = grade_steps(found, steps, query["level"])
    for note in notes:
        run.warn(**note)
    run.emit("estimate", level=level, level_source=source, steps=graded)
    update: State = {"query": {**query, "level": level}, "level_source": source}
    return {**update, "plan": graded} if steps else update


async def _level_alone(query: Query, run: Run) -> Difficulty | None:
    """Return the level from a reply of two tokens; None where it is to be asked in full.

    Some models cannot answer so shortly: they think all the same, or their server refuses.
    """
    try:
        judged = await run.ask_planner(level_request(query, run.settings))
        return Difficulty(level=judged.level)
    except UnreadableReplyError:
        run.warn("unreadable_reply", "no level in a reply of two tokens: asked for in full")
    except ModelCallError as failure:
        run.warn("call_failed", str(failure))
    return None
