"""Splits the budget over the sub-questions, wave by wave, and bounds what a question can cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.types import Send

from pb_graph.budget import LEVELS, optimal_allocation, schedule_weights, split
from pb_graph.budget.account import Budget
from pb_graph.budget.context import available_tokens
from pb_graph.budget.ledger import most_billed, spending, spent
from pb_graph.methods import METHODS
from pb_graph.nodes.plan import planning_bound, single_step
from pb_graph.planner.cleaning import MIDDLE
from pb_graph.settings import Settings
from pb_graph.state import SolveTask, State
from pb_graph.types import Query, ReportWarning, SubQuestion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pb_graph.run.run import Run


def allocate(state: State, run: Run) -> State:
    """Write ``total``, ``ceiling`` and ``shares`` before the first wave, new ``shares`` later."""
    if state["shares"]:
        return _reallocate(state, run)
    settings, query = run.settings, state["query"]
    total, notes = _total(state, run)
    update: State = {"total": total, "warnings": notes}
    plan = state["plan"]
    if settings.splits_budget and total < len(plan):
        note = f"allocate: {total} tokens cannot pay {len(plan)} sub-questions: solved as one step"
        plan = [single_step(query)]
        run.emit({"event": "plan", "steps": plan})
        notes = [*notes, ReportWarning(code="single_step", message=note)]
        update |= {"plan": plan, "warnings": notes}
    if settings.splits_budget:
        update["shares"] = _allocate_shares(total, plan, plan, query["level"], settings)
    update["ceiling"] = lower_ceiling(state, solving_bound(settings, query, total, len(plan)))
    _tell(run, query["level"], total, update.get("shares", {}).values())
    return update


def route_next_wave(state: State, settings: Settings) -> str | list[Send]:
    """Return what follows: a ``solve`` for each sub-question of the next wave, or the synthesis."""
    if not settings.splits_budget or (not settings.is_stepwise and len(state["plan"]) > 1):
        return "answer"
    plan, results, ceiling = state["plan"], state["results"], state["ceiling"]
    if ceiling is not None and spent(state["charges"]) >= ceiling:
        return "synthesize"  # nothing more is to be paid
    wave = next_wave(plan, {result["index"] for result in results}, settings)
    return [_task(state, step["index"], settings) for step in wave] or "synthesize"


def first_ceiling(settings: Settings, query: Query) -> tuple[int, int]:
    """Return the completion tokens that a question cannot exceed, before its first call.

    Args:
        settings: The settings of the run.
        query: The question. Without a level, the level with the largest total counts.

    Returns:
        The ceiling, planning included, and the part of it that is for planning.
    """
    level, total = query["level"], None
    if settings.has_budget:
        levels = LEVELS if level is None and settings.budget_rule.needs_level else [level]
        total = max(settings.budget_rule.total(each) for each in levels)
    enforced = None if settings.enforcement == "prompt" else total
    has_plan = settings.has_plan
    planning = planning_bound(settings, query, enforced) if has_plan or total is not None else 0
    steps = settings.max_steps if has_plan else 1
    solving = solving_bound(settings, query, total, steps)
    return available_tokens(planning + solving, include_pending=True), planning


def solving_bound(settings: Settings, query: Query, total: int | None, steps: int) -> int:
    """Return the completion tokens that all calls after planning can cost together.

    Args:
        settings: The settings of the run.
        query: The question.
        total: The question's budget; None without one.
        steps: The sub-questions, at most. Where the budget is only said, the cutoff of each call is
            the only bound, and there may be one call more, when the last step comes to nothing.
    """
    ceiling = METHODS[settings.method].ceiling
    most = ceiling(settings, query) if ceiling else settings.cutoff
    if total is None or settings.enforcement == "prompt":
        return settings.cutoff * (steps + 1) if settings.is_stepwise else most
    if not settings.is_stepwise:
        return min(total, most)
    has_synthesis = settings.synthesis == "call" and steps > 1
    return total + (min(synthesis_cap(total, 2, settings), settings.cutoff) if has_synthesis else 0)


def lower_ceiling(state: State, to_come: int) -> int:
    """Return the ceiling once the calls to come are known: what was billed, and those."""
    now = most_billed(state["charges"]) + available_tokens(to_come, include_pending=True)
    ceiling = state["ceiling"]
    return now if ceiling is None else min(now, ceiling)


def synthesis_cap(total: int, steps: int, settings: Settings) -> int:
    """Return the tokens of the closing call of ``synthesis="call"``: those of an average step."""
    return max(-(-total // steps), min(settings.min_step, total))


def is_final(plan: Sequence[SubQuestion], index: int, settings: Settings) -> bool:
    """Return whether a sub-question also has to give the final answer."""
    return len(plan) == 1 or (settings.synthesis == "last_step" and index == len(plan) - 1)


def next_wave(
    plan: Sequence[SubQuestion], done: Collection[int], settings: Settings
) -> list[SubQuestion]:
    """Return the sub-questions whose dependencies are done; only the first unless in parallel.

    The final one waits for all others, whatever it was planned to depend on: it puts together what
    they found.
    """
    wave = [
        step
        for step in plan
        if step["index"] not in done
        and all(needed in done for needed in _direct(plan, step["index"], settings))
    ]
    return wave if settings.parallel else wave[:1]


def transitive_dependencies(
    plan: Sequence[SubQuestion], index: int, settings: Settings
) -> list[int]:
    """Return the indices whose answers a sub-question is shown: its dependencies and theirs."""
    needed: set[int] = set()
    open_ends = _direct(plan, index, settings)
    while open_ends:
        last = open_ends.pop()
        if last not in needed:
            needed.add(last)
            open_ends += plan[last]["depends_on"]
    return sorted(needed)


def _direct(plan: Sequence[SubQuestion], index: int, settings: Settings) -> list[int]:
    return list(range(index)) if is_final(plan, index, settings) else plan[index]["depends_on"][:]


def _task(state: State, index: int, settings: Settings) -> Send:
    done = {result["index"]: result for result in state["results"]}
    needed = transitive_dependencies(state["plan"], index, settings)
    task = SolveTask(
        settings=state["settings"],
        query=state["query"],
        plan=state["plan"],
        results=[done[earlier] for earlier in needed],
        index=index,
        budget=state["shares"][str(index)],
        disabled_models=state["disabled_models"],
        run_id=state["run_id"],
        spent=spending(state["charges"]),
        closing=is_final(state["plan"], index, settings),
    )
    return Send("solve", task)


def _total(state: State, run: Run) -> tuple[int, list[ReportWarning]]:
    """Return the question's budget, or what is left for it around it, and a note of that, once."""
    wanted = run.settings.budget_rule.total(state["query"]["level"])
    if (left := available_tokens(wanted, model=run.price_key)) == wanted:
        return wanted, []
    note = f"allocate: the shared budget had {left} tokens left: the question's budget of {wanted}"
    warning = ReportWarning(code="budget_lowered", message=f"{note} shrank to it")
    return max(1, left), [] if warning in state["warnings"] else [warning]


def _reallocate(state: State, run: Run) -> State:
    """Give what the finished steps left unspent to those not yet started, in their old ratio."""
    done = {result["index"]: result for result in state["results"]}
    rest = [step for step in state["plan"] if step["index"] not in done]
    if not run.settings.rollover or not rest:
        return {}
    total = state["total"] or 0  # which there is, where there are shares
    account = Budget(max(1, total))
    account.charge(most_billed(row for row in state["charges"] if row["node"] == "solve"))
    left = int(account.left)
    if run.settings.enforcement == "prompt":
        # A budget that is only said can be overspent; the steps to come are not to suffer for that.
        left = max(left, sum(state["shares"][str(step["index"])] for step in rest))
    left = max(left, len(rest))  # a server that takes no notice of caps may have used it up
    level = state["query"]["level"]
    shares = state["shares"] | _allocate_shares(left, rest, state["plan"], level, run.settings)
    _tell(run, level, total, shares.values())
    return {"shares": shares}


def _tell(run: Run, level: int | None, total: int, shares: Iterable[int]) -> None:
    run.emit({"event": "budgets", "level": level, "budget": total, "shares": [*shares]})


def _allocate_shares(
    tokens: int,
    steps: Sequence[SubQuestion],
    plan: Sequence[SubQuestion],
    level: int | None,
    settings: Settings,
) -> dict[str, int]:
    """Tokens of each of the steps by its index; they keep the position they had in the plan."""
    if settings.schedule == "bam":
        relative = _bam_shares(steps, tokens, level, settings)
    else:
        rho = schedule_weights(settings.schedule, len(plan), **settings.shape)
        weights = [1.0] * len(plan) if settings.schedule == "uniform" else _weights(plan)
        relative = [weights[step["index"]] * rho[step["index"]] for step in steps]
    shares = split(
        # A schedule may be zero where all the credits are.
        relative if any(relative) else [1.0] * len(steps),
        tokens,
        remainder=settings.remainder,
        minimum=max(1, settings.min_step),  # no call can be made with a cap of 0
    )
    return {str(step["index"]): share for step, share in zip(steps, shares, strict=True)}


def _weights(plan: Sequence[SubQuestion]) -> list[float]:
    """Credits as complexity weights; ungraded sub-questions count the same."""
    credit = [step["credit"] for step in plan]
    known = [value for value in credit if value is not None]
    return known if len(known) == len(plan) and any(known) else [1.0] * len(plan)


def _bam_shares(
    plan: Sequence[SubQuestion], total: int, level: int | None, settings: Settings
) -> list[float]:
    levels = [step["level"] or level or MIDDLE for step in plan]
    c = [settings.bam.c[level] for level in levels]
    beta = [settings.bam.beta[level] for level in levels]
    return optimal_allocation(c, beta, total)
