"""Estimate the level of a question, decompose it, and grade the sub-questions."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from pb_graph.budget.account import Budget, available_tokens, use_budget
from pb_graph.errors import ModelCallError
from pb_graph.models.caps import policy_for
from pb_graph.models.classes import can_stop_thinking
from pb_graph.models.options import TIMEOUT, CallOptions, Thinking, least_cap
from pb_graph.planner.plans import Difficulty, clean_plan, grade_steps, is_beside_task, single_step
from pb_graph.planner.requests import PlannerRequest, estimate_request, level_request, plan_request
from pb_graph.run.parts import Role
from pb_graph.run.run import Run
from pb_graph.state import State
from pb_graph.tasks import asked_length, is_composed
from pb_graph.types import Purpose, Query, SubQuestion

T = TypeVar("T")


async def plan(state: State, run: Run) -> State:
    """Write the level into ``query``, and ``plan``; below ``plan_from`` a plan of one step."""
    settings, query, update = run.settings, state["query"], State()
    with use_budget(_planning(state, run)):
        asks = query["level"] is None and settings.needs_level
        # A planner that cannot but think gives the level with the plan.
        if asks and (await _is_brief(run) or not settings.is_planned(None)):
            update = await _level_update(state, [], run)
            query = update["query"]
        if settings.is_planned(query["level"]):
            update |= await _decompose(query, run)
    plan = update.get("plan") or [single_step(update.get("query", query))]
    run.emit("plan", steps=plan)
    run.goto = "review" if settings.review_plan else "answer"
    if settings.has_budget:  # a plan of one step needs no estimate
        run.goto = "estimate" if len(plan) > 1 else "allocate"
    return {**update, "plan": plan}


async def estimate(state: State, run: Run) -> State:
    """Write the level into ``query`` and grades into ``plan``, if they are unknown."""
    settings, plan = run.settings, state["plan"]
    ungraded = plan if settings.needs_credits and None in [s["credit"] for s in plan] else []
    if not ungraded and (state["query"]["level"] is not None or not settings.needs_level):
        return {}
    with use_budget(_planning(state, run)):
        return await _level_update(state, ungraded, run)


async def _is_brief(run: Run) -> bool:
    """Return whether the estimator can reply in a few tokens, without thinking."""
    if (await run.class_of("estimator")).name != "thinking":
        return True
    policy, client = run.parts.cap_policy, await run.client("estimator")
    return all(can_stop_thinking(model, policy or policy_for(model)) for model in client.models)


async def _ask(request: PlannerRequest[T], run: Run) -> T | None:
    """Return the planner's value, asked for twice at most; None, after a warning, without any."""
    role: Role = "estimator" if request.node == "estimate" else "planner"
    settings, program = run.settings, run.context.planner_program
    cap = min(request.cap or settings.cutoff, settings.planner_room)
    client, thinks = await run.client(role), (await run.class_of(role)).name == "thinking"
    planner, complaint = await run.parts.planner(program, run.io), ""
    thinking: Thinking = "off" if request.cap or thinks else "bounded"
    purpose, timeout = Purpose(request.node), settings.timeout or TIMEOUT
    for _ in range(1 if request.cap else 2):  # some models cannot answer in a few tokens
        size = max(min(cap, settings.cutoff), least_cap(client.model))
        options = CallOptions(size, timeout, request.schema, thinking=thinking, purpose=purpose)
        try:
            reply = await run.call(client, planner.messages(request), options)
        except ModelCallError as failure:
            run.warn(failure.code, str(failure))
            return None
        value, reason = planner.read(request, reply.text, traced=program is not None)
        is_cut = reply.finish == "length"
        is_part = is_cut and thinks and not request.cap  # a part of a plan is another plan
        if value is not None and not is_part:
            if complaint:
                run.warn("unreadable_reply", f"the first reply was unreadable ({complaint})")
            return value
        complaint = reason if value is None else "it was cut off"
        if not is_cut:
            request = replace(request, inputs=request.inputs | {"correction": complaint})
        elif (room := available_tokens(4 * cap)) > cap:
            cap = room
        else:  # it would be cut off again
            break
    run.warn("unreadable_reply", f"no reply was readable ({complaint}); continuing without")
    return None


def _planning(state: State, run: Run) -> Budget:
    """Return the account of all planner calls together, a part of the question's account."""
    bound = max(1, state["planning_bound"])
    part = min(bound, available_tokens(2 * bound) // 2)  # an only token is the answer's
    account = run.budget.limit(tokens=part)
    account.charge(run.earlier, run=run.state["run_id"])  # the accounts above it know the run
    return account


async def _decompose(query: Query, run: Run) -> State:
    """Return the sub-questions, if there are two or more, and a level that came with them."""
    settings, update, steps = run.settings, State(), list[SubQuestion]()
    graded = settings.planning == "fused" and settings.splits_budget
    tools = [f"{tool.name}: {tool.description:.120}" for tool in run.parts.tools]
    raw_plan = await _ask(plan_request(query, settings, graded=graded, tools=tools), run)
    if graded and query["level"] is None:
        found = raw_plan.level if raw_plan else None
        level, _, _ = grade_steps(Difficulty(level=found), [], None)
        query = {**query, "level": level}
        update = {"query": query, "level_source": "default" if found is None else "estimated"}
        run.emit("estimate", level=level, level_source=update["level_source"], steps=[])
        if not settings.is_planned(level):
            return update
    if raw_plan:
        steps, notes = clean_plan(raw_plan, query, settings.max_steps)
        for note in notes:
            run.warn(**note)
        if len(steps) > 1 and is_beside_task(steps, query):
            run.warn("plan_dropped", "the plan only repeated the question, or left it out")
            steps = []
    if settings.synthesis == "auto":
        says = raw_plan and raw_plan.delivers
        joins = says == "all" or (says is None and asked_length(query) is not None)
        is_text = joins and is_composed(query) and run.parts.answer_type is None
        way = {"synthesis": "join" if is_text else "last_step"}
        run.settings = settings.model_copy(update=way)
    if len(steps) > 1:
        return {**update, "plan": steps}
    run.warn("single_step", "the question is solved as one step")
    return update


async def _level_update(state: State, steps: list[SubQuestion], run: Run) -> State:
    """Return the level of the question and the grades of its steps."""
    query, settings = state["query"], run.settings
    is_brief = not steps and await _is_brief(run)  # can be asked for a level alone
    found: Difficulty | None = await _ask(level_request(query, settings), run) if is_brief else None
    difficulty = found or await _ask(estimate_request(query, steps, settings), run) or Difficulty()
    level, graded, notes = grade_steps(difficulty, steps, query["level"])
    for note in notes:
        run.warn(**note)
    source = state["level_source"] or ("default" if difficulty.level is None else "estimated")
    run.emit("estimate", level=level, level_source=source, steps=graded)
    update: State = {"query": {**query, "level": level}, "level_source": source}
    return {**update, "plan": graded} if steps else update
