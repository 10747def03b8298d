"""Split the budget over the sub-questions, wave by wave, and let a person review it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from langgraph.types import Send, interrupt
from pydantic import BaseModel, Field, StringConstraints

from pb_graph.budget.account import Budget, available_tokens
from pb_graph.budget.allocation import Level, optimal_allocation, split
from pb_graph.budget.bill import most_billed, spending, spent
from pb_graph.errors import BudgetUsedUpError
from pb_graph.planner.plans import MIDDLE, single_step
from pb_graph.run.resume import pause_of, read_decision
from pb_graph.run.run import Run
from pb_graph.settings import MIN_SHARE, Settings
from pb_graph.state import State
from pb_graph.types import SubQuestion

_Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)]


class ReviewedStep(BaseModel, extra="forbid"):
    """A sub-question from a reviewer; its position in the list counts, not its ``index``."""

    index: int | None = None
    question: Annotated[_Text, Field(min_length=1)]
    hint: _Text = ""
    depends_on: list[int] | None = None
    level: Level | None = None
    credit: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class Review(BaseModel, extra="forbid"):
    """A reviewer's plan, a new budget, or both."""

    plan: Annotated[list[ReviewedStep], Field(min_length=1)] | None = None
    budget: Annotated[int, Field(ge=1, strict=True)] | None = None


async def allocate(state: State, run: Run) -> State:
    """Write the budget, ``limit`` and ``shares`` before the first wave, new ``shares`` later."""
    settings, query, plan, limit = run.settings, state["query"], state["plan"], state["limit"]
    if state["shares"]:
        update = _reallocate(state, settings)
    else:
        budget, is_raised = await _budget(state, run)
        update = State(query={**query, "budget": budget})
        if settings.splits_budget:
            if budget < len(plan):
                few = f"{budget} tokens are too few for {len(plan)} sub-questions"
                run.warn("single_step", f"{few}: solved as one step")
                update["plan"] = plan = [single_step(query)]
                run.emit("plan", steps=plan)
            update["shares"] = _split(budget, plan, state, settings)
        to_come = settings.solving_bound(query, budget, len(plan)) + state["thinking_room"]
        bound = available_tokens(to_come) + most_billed(state["charges"])
        update["limit"] = bound if limit is None or is_raised else min(bound, limit)
    after: State = {**state, **update}
    run.goto, query = _next_wave(after, settings), after["query"]
    if update:
        run.emit("allocate", level=query["level"], budget=query["budget"], shares=after["shares"])
    return update


def review(state: State, run: Run) -> State:
    """Interrupt until a reviewer accepts the plan with True, or sends a `Review` in its place."""
    query, plan, schema = state["query"], state["plan"], cast("Any", Review | Literal[True])
    payload: dict[str, Any] = {"plan": plan, "level": query["level"], "budget": query["budget"]}
    payload |= {"shares": state["shares"], "limit": state["limit"], "warnings": state["warnings"]}
    edit = interrupt(payload, response_schema=schema)
    run.settings = run.settings.model_copy(update={"review_plan": False})
    update = State()
    if edit is not True:
        plan = [_reviewed(step, place) for place, step in enumerate(edit.plan or ())] or plan
        run.emit("plan", steps=plan)
        update = State(query={**query, "budget": None}, plan=plan, shares=[])
        if edit.budget is not None:  # a reviewer may raise this limit, and none of the settings
            run.settings = run.settings.model_copy(update={"budget": edit.budget})
            update["limit"] = None
    after: State = {**state, **update, "settings": run.settings.model_dump(mode="json")}
    has_shares = not run.settings.has_budget or after["query"]["budget"] is not None
    run.goto = _next_wave(after, run.settings) if has_shares else "allocate"
    return update


def _reviewed(step: ReviewedStep, place: int) -> SubQuestion:
    indices = [place - 1] if step.depends_on is None else step.depends_on
    needs = sorted({other for other in indices if 0 <= other < place})
    return cast("SubQuestion", step.model_dump() | {"index": place, "depends_on": needs})


def _reallocate(state: State, settings: Settings) -> State:
    """Split the unspent tokens of finished steps over the remaining steps, in their old ratio."""
    done = {result["index"] for result in state["results"]}
    rest = [step for step in state["plan"] if step["index"] not in done]
    if not rest:
        return {}
    shares, solving = state["shares"], [row for row in state["charges"] if row["node"] == "solve"]
    left = (state["query"]["budget"] or 0) - most_billed(solving)
    # A server may ignore its caps. Overspending a stated budget must not shrink later shares.
    is_stated = settings.enforcement == "prompt"
    least = sum(shares[step["index"]] for step in rest) if is_stated else len(rest)
    new = iter(_split(max(left, least), rest, state, settings))
    return {"shares": [shares[n] if n in done else next(new) for n in range(len(shares))]}


async def _budget(state: State, run: Run) -> tuple[int, bool]:
    """Return the question's budget, and whether a decision raised the budget around it."""
    budget = run.settings.budget_for(state["query"]["level"])
    solver = (await run.client("solver")).key  # whose price counts in dollars
    left, shared, decision = available_tokens(budget, model=solver), run.limit, None
    if left < budget and run.parts.on_used_up != "answer" and isinstance(shared, Budget):
        size, rest = map(shared.rate.text, (shared.total, shared.left))
        cost = f"{budget} completion tokens"
        error = BudgetUsedUpError(size, cost=cost, left=rest, of="question")
        if run.parts.on_used_up == "pause":
            decision = read_decision(shared, pause_of(shared, error, state["query"]["question"]))
        if run.parts.on_used_up == "error" or decision == "stop":
            raise error
        left = available_tokens(budget, model=solver)
    if left < budget:
        note = f"the budget around the question had only {left} tokens left, so its own budget"
        run.warn("budget_lowered", f"{note} was lowered from {budget}")
    return max(1, left), decision == "raise"


def _split(tokens: int, steps: list[SubQuestion], state: State, settings: Settings) -> list[int]:
    """Return the tokens of each step; steps keep their position in the plan."""
    plan, shape = state["plan"], settings.shape
    if shape.name == "bam":
        levels = [step["level"] or state["query"]["level"] or MIDDLE for step in steps]
        c, beta = shape.c, shape.beta
        relative = optimal_allocation([c[n] for n in levels], [beta[n] for n in levels], tokens)
    else:
        rho = shape.weights(len(plan))
        credit = [step["credit"] for step in plan]
        if not settings.needs_credits or None in credit or not any(credit):
            credit = [1.0] * len(plan)
        relative = [(credit[step["index"]] or 0) * rho[step["index"]] for step in steps]
    if not any(relative):  # a schedule may be zero where all the credits are
        relative = [1.0] * len(steps)
    if settings.is_paper:
        return split(relative, tokens, remainder="floor", minimum=1)  # no call has a cap of 0
    return split(relative, tokens, minimum=MIN_SHARE)


def _next_wave(state: State, settings: Settings) -> str | list[Send]:
    """Return the next tasks: the review, a ``solve`` for each step of a wave, or an answer."""
    plan, limit, charges = state["plan"], state["limit"], state["charges"]
    if settings.has_plan and settings.review_plan:
        return "review"
    if not settings.splits_budget or (not settings.is_stepwise and len(plan) > 1):
        return "answer"
    results = {result["index"]: result for result in state["results"]}
    if len(results) == len(plan) or (limit is not None and spent(charges) >= limit):
        return "synthesize"  # no step is left, or nothing for another one
    gives_answer, wave = settings.synthesis in {"auto", "last_step"}, list[Send]()
    kept = ("settings", "query", "plan", "limit", "thinking_room", "run_id")
    shared = {name: state.get(name) for name in kept} | {"spent": spending(charges)}
    for place, step in enumerate(plan):
        # The last step combines the results of all others, where it also gives the final answer.
        closes = len(plan) == 1 or (gives_answer and step is plan[-1])
        needs = {*range(place)} if closes else {*step["depends_on"]}
        if place in results or not needs <= results.keys():
            continue
        for earlier in reversed(plan[:place]):  # a step depends on earlier steps only
            if earlier["index"] in needs:
                needs |= {*earlier["depends_on"]}
        own = {"index": place, "share": state["shares"][place], "closes": closes}
        known = [results[n] for n in sorted(needs)]
        wave.append(Send("solve", {**shared, **own, "results": known}))
    return wave or "synthesize"
