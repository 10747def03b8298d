"""Finds the level of the question, decomposes it, and grades its sub-questions.

Nothing is asked that bears on neither the plan nor the budget, and all planner calls of a question
share one part of its ceiling.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, cast

from pb_graph.budget.account import Budget
from pb_graph.budget.context import available_tokens, use_budget
from pb_graph.budget.ledger import most_billed
from pb_graph.errors import ModelCallError
from pb_graph.planner.cleaning import clean_plan, grade_steps
from pb_graph.planner.parsing import Difficulty
from pb_graph.planner.requests import (
    LEVEL_CAP,
    UnreadableReplyError,
    estimate_request,
    level_request,
    plan_request,
)
from pb_graph.types import Query, ReportWarning, SubQuestion

if TYPE_CHECKING:
    from pb_graph.run.run import Run
    from pb_graph.settings import Settings
    from pb_graph.state import State

_REFUSED = {400, 422}
_ALL_CREDITS = 100.0


async def plan(state: State, run: Run) -> State:
    """Write the level into ``query``, and ``plan``; below ``plan_from`` a plan of one step."""
    settings, update = run.settings, cast("State", {"warnings": []})
    query, steps = state["query"], list[SubQuestion]()
    with _planning(state):
        if settings.needs_level and query["level"] is None:
            update = await _level_update(state, [], run)
            query = update["query"]
        if _is_planned(settings, query["level"]):
            steps, notes = await _decompose(query, run)
            update["warnings"] += notes
    if not steps:
        steps = [single_step(query)]
    run.emit({"event": "plan", "steps": steps})
    return {**update, "query": query, "plan": steps}


async def estimate(state: State, run: Run) -> State:
    """Write the level into ``query`` and grades into ``plan``, where they are not known yet."""
    query, steps = state["query"], state["plan"]
    is_graded = len(steps) < 2 or all(step["credit"] is not None for step in steps)  # noqa: PLR2004
    ungraded = [] if is_graded or not run.settings.needs_credits else steps
    if not ungraded and (query["level"] is not None or not run.settings.needs_level):
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
        credit=_ALL_CREDITS,
    )


def planning_bound(settings: Settings, query: Query, total: int | None) -> int:
    """Return the completion tokens that all planner calls for a question can cost together.

    Args:
        settings: The settings of the run.
        query: The question, with its level if that is given.
        total: The most that its budget can be, if that is enforced: planning may cost as much
            again, and no more.
    """
    level, cap = query["level"], settings.planner_cap
    calls = 2 if settings.has_plan and (level is None or _is_planned(settings, level)) else 0
    if calls and settings.needs_credits and settings.planning == "two_call":
        calls += 2
    bound = calls * cap
    if settings.needs_level and level is None:
        bound += LEVEL_CAP + 2 * cap
    return bound if total is None else min(bound, total)


def _is_planned(settings: Settings, level: int | None) -> bool:
    first = settings.plan_from
    return first is not None and (level is None or level >= first)


def _planning(state: State) -> AbstractContextManager[None]:
    """Open what planning may cost, less what it has cost, below the accounts around it."""
    bound = max(1, state["planning_bound"])
    account = Budget(max(1, min(bound, available_tokens(2 * bound) // 2)))
    account.charge(most_billed(state["charges"]))
    return use_budget(account)


async def _decompose(query: Query, run: Run) -> tuple[list[SubQuestion], list[ReportWarning]]:
    """Return the sub-questions, none where none can be had, and warnings."""
    settings, notes = run.settings, list[ReportWarning]()
    steps: list[SubQuestion] = []
    graded = settings.planning == "fused" and settings.splits_budget
    found, warnings = await run.ask_planner_with_repair(
        plan_request(query, settings, graded=graded)
    )
    if found:
        steps, notes = clean_plan(found, query, settings.max_steps)
    if not steps:
        note = "plan: the question is solved as one step"
        notes = [*notes, ReportWarning(code="single_step", message=note)]
    return steps, [*warnings, *notes]


async def _level_update(state: State, steps: list[SubQuestion], run: Run) -> State:
    """Estimate the level of the question, and grades of its steps, and return what is written."""
    query, source = state["query"], state["level_source"] or "estimated"
    found, warnings = (None, []) if steps else await _level_alone(query, run)
    if found is None:
        request = estimate_request(query, steps, run.settings)
        found, more = await run.ask_planner_with_repair(request)
        warnings += more
    level, graded, notes = grade_steps(found or Difficulty(), steps, query["level"])
    run.emit({"event": "estimate", "level": level, "level_source": source, "steps": graded})
    update: State = {
        "query": {**query, "level": level},
        "level_source": source,
        "warnings": warnings + notes,
    }
    return {**update, "plan": graded} if steps else update


async def _level_alone(query: Query, run: Run) -> tuple[Difficulty | None, list[ReportWarning]]:
    """Return the level from a reply of two tokens; None where it is to be asked in full.

    Some models cannot answer so shortly: they think all the same, or their server refuses.
    """
    try:
        judged = await run.ask_planner(level_request(query, run.settings))
    except UnreadableReplyError:
        note = "estimate: no level in a reply of two tokens: asked for in full"
        return None, [ReportWarning(code="unreadable_reply", message=note)]
    except ModelCallError as failure:
        is_refused = failure.status in _REFUSED
        note = f"estimate: {failure} {'Asked for in full.' if is_refused else 'Going on without.'}"
        warnings = [ReportWarning(code="call_failed", message=note)]
        return None if is_refused else Difficulty(), warnings
    return Difficulty(level=judged.level), []
