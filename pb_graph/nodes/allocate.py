"""Splits the budget over the sub-questions; between waves, what is left over what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.types import Send

from pb_graph.budget import optimal_allocation, schedule_weights, split
from pb_graph.budget.account import Budget
from pb_graph.budget.context import available_tokens
from pb_graph.budget.ledger import most_billed, spent
from pb_graph.methods import METHODS
from pb_graph.nodes.plan import whole_question
from pb_graph.nodes.waves import is_closing, next_wave, transitive_dependencies
from pb_graph.planner.cleaning import MIDDLE
from pb_graph.settings import Settings
from pb_graph.state import SolveTask, State
from pb_graph.types import SubQuestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pb_graph.run.run import Run


def allocate(state: State, run: Run) -> State:
    """Write ``total``, ``ceiling`` and ``shares`` before the first wave, new ``shares`` later."""
    if state["shares"]:
        return _rolled_over(state, run)
    settings, query = run.settings, state["query"]
    total, notes = _total(state, run)
    update: State = {"total": total, "warnings": notes}
    if not settings.splits_budget:
        _tell(run, query["level"], total, [])
        return update | {"ceiling": _ceiling(state, 1, total, run)}
    plan: list[SubQuestion] = state["plan"]
    if total < len(plan):
        note = f"{total} tokens cannot pay {len(plan)} sub-questions: solved as one step"
        plan = [whole_question()]
        run.emit({"event": "plan", "steps": plan})
        update |= {"plan": plan, "warnings": [*notes, f"allocate: {note}"]}
    shares = _shared_out(total, plan, plan, query["level"], settings)
    _tell(run, query["level"], total, shares.values())
    return update | {"shares": shares, "ceiling": _ceiling(state, len(plan), total, run)}


def route_next_wave(state: State, settings: Settings) -> str | list[Send]:
    """What follows: one ``solve`` for each sub-question of the next wave, or the synthesis."""
    if not settings.is_stepwise:
        return "answer"
    plan, results, ceiling = state["plan"], state["results"], state["ceiling"]
    if ceiling is not None and spent(state["charges"]) >= ceiling:
        return "synthesize"  # nothing more is to be paid
    wave = next_wave(plan, {result["index"] for result in results}, settings)
    return [_task(state, step["index"], settings) for step in wave] or "synthesize"


def synthesis_cap(total: int, steps: int, settings: Settings) -> int:
    """Tokens of the closing call of ``synthesis="call"``: as much as a step gets on average."""
    return max(-(-total // steps), min(settings.min_step, total))


def _task(state: State, index: int, settings: Settings) -> Send:
    done = {result["index"]: result for result in state["results"]}
    needed = transitive_dependencies(state["plan"], index, settings)
    task = SolveTask(
        settings=state["settings"],
        brought=state.get("brought", {}),
        query=state["query"],
        plan=state["plan"],
        results=[done[earlier] for earlier in needed],
        index=index,
        budget=state["shares"][str(index)],
        unusable=state["unusable"],
        run_id=state["run_id"],
        spent=most_billed(state["charges"]),
        closing=is_closing(state["plan"], index, settings),
    )
    return Send("solve", task)


def _total(state: State, run: Run) -> tuple[int, list[str]]:
    """The question's budget, or what is left for it of a shared one, and a note of that, once."""
    wanted = run.settings.budget_rule.total(state["query"]["level"])
    if (left := available_tokens(wanted)) == wanted:
        return wanted, []
    note = f"allocate: the shared budget had {left} tokens left: the question's budget of {wanted}"
    note += " shrank to it"
    return max(1, left), [note] * (note not in state["warnings"])


def _rolled_over(state: State, run: Run) -> State:
    """Give what the finished steps left unspent to those not yet started, in their old ratio."""
    done = {result["index"]: result for result in state["results"]}
    rest = [step for step in state["plan"] if step["index"] not in done]
    if not run.settings.rollover or not rest:
        return {}
    total = state["total"] or 0  # which there is, where there are shares
    account = Budget(max(1, total))
    account.charge(most_billed(row for row in state["charges"] if row["node"] == "solve"))
    left = account.left
    if run.settings.enforcement == "prompt":
        # A budget that is only said can be overspent; the steps to come are not to suffer for that.
        left = max(left, sum(state["shares"][str(step["index"])] for step in rest))
    left = max(left, len(rest))  # a server that takes no notice of caps may have used it up
    level = state["query"]["level"]
    shares = state["shares"] | _shared_out(left, rest, state["plan"], level, run.settings)
    _tell(run, level, total, shares.values())
    return {"shares": shares}


def _tell(run: Run, level: int | None, total: int, shares: Iterable[int]) -> None:
    run.emit({"event": "budgets", "level": level, "budget": total, "shares": [*shares]})


def _shared_out(
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


def _ceiling(state: State, steps: int, total: int, run: Run) -> int:
    """Completion tokens this query cannot exceed: those billed, and the caps of all calls to come.

    When the budget is only said, the cutoff of every call is the only bound there is, and there
    may be one call more, when the last step comes to nothing.
    """
    settings, method = run.settings, METHODS[run.settings.method]
    most = method.token_bound(settings, state["query"])
    synthesis = settings.is_stepwise and settings.synthesis == "call"
    if settings.enforcement == "prompt":
        to_come = settings.cutoff * (steps + 1) if settings.is_stepwise else most
    else:
        to_come = total if settings.is_stepwise else min(total, most)
        if synthesis:
            to_come += min(synthesis_cap(total, steps, settings), settings.cutoff)
    return most_billed(state["charges"]) + available_tokens(to_come, include_pending=True)
