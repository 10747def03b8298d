"""Split the budget over the sub-questions, wave by wave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.types import Send

from pb_graph.budget import optimal_allocation, schedule_weights, split
from pb_graph.budget.account import Budget
from pb_graph.budget.ledger import most_billed, spending, spent
from pb_graph.budget.scope import available_tokens
from pb_graph.nodes.intake import lower_ceiling, solving_bound
from pb_graph.nodes.plan import single_step
from pb_graph.planner.cleaning import MIDDLE
from pb_graph.settings import Settings
from pb_graph.state import SolveTask, State
from pb_graph.types import SubQuestion

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pb_graph.run.run import Run


def allocate(state: State, run: Run) -> State:
    """Write ``total``, ``ceiling`` and ``shares`` before the first wave, new ``shares`` later."""
    if state["shares"]:
        return _reallocate(state, run)
    settings, query, plan = run.settings, state["query"], state["plan"]
    total = _total(state, run)
    update: State = {"total": total}
    if settings.splits_budget:
        if total < len(plan):
            note = f"{total} tokens cannot pay {len(plan)} sub-questions: solved as one step"
            run.warn("single_step", note)
            update["plan"] = plan = [single_step(query)]
            run.emit("plan", steps=plan)
        update["shares"] = _split(total, plan, plan, query["level"], settings)
    update["ceiling"] = lower_ceiling(state, solving_bound(settings, query, total, len(plan)))
    _tell(run, query["level"], total, update.get("shares", []))
    return update


def _reallocate(state: State, run: Run) -> State:
    """Give what the finished steps left unspent to those not yet started, in their old ratio."""
    done = {result["index"] for result in state["results"]}
    rest = [step for step in state["plan"] if step["index"] not in done]
    if not run.settings.rollover or not rest:
        return {}
    shares, total = state["shares"], state["total"] or 0  # which there is, where there are shares
    account = Budget(max(1, total))
    account.charge(most_billed(row for row in state["charges"] if row["node"] == "solve"))
    left = int(account.left)
    if run.settings.enforcement == "prompt":
        # A budget that is only said can be overspent; the steps to come are not to suffer for that.
        left = max(left, sum(shares[step["index"]] for step in rest))
    left = max(left, len(rest))  # a server that takes no notice of caps may have used it up
    level = state["query"]["level"]
    new = iter(_split(left, rest, state["plan"], level, run.settings))
    shares = [share if index in done else next(new) for index, share in enumerate(shares)]
    _tell(run, level, total, shares)
    return {"shares": shares}


def _total(state: State, run: Run) -> int:
    """Return the question's budget, or what is left for it around it, with a warning, once."""
    wanted = run.settings.budget_rule.total(state["query"]["level"])
    left = available_tokens(wanted, model=run.price_key)
    if left < wanted and not any(note["code"] == "budget_lowered" for note in state["warnings"]):
        note = f"the shared budget had {left} tokens left: the question's budget of {wanted}"
        run.warn("budget_lowered", f"{note} shrank to it")
    return max(1, left)


def _tell(run: Run, level: int | None, total: int, shares: list[int]) -> None:
    run.emit("budgets", level=level, budget=total, shares=shares)


def _split(
    tokens: int,
    steps: Sequence[SubQuestion],
    plan: Sequence[SubQuestion],
    level: int | None,
    settings: Settings,
) -> list[int]:
    """Return the tokens of each of the steps, which keep the position they have in the plan."""
    if settings.schedule == "bam":
        levels = [step["level"] or level or MIDDLE for step in steps]
        c, beta = (
            [table[each] for each in levels] for table in (settings.bam.c, settings.bam.beta)
        )
        relative = optimal_allocation(c, beta, tokens)
    else:
        rho = schedule_weights(settings.schedule, len(plan), **settings.shape)
        credit = [step["credit"] for step in plan]
        if settings.schedule == "uniform" or None in credit or not any(credit):
            credit = [1.0] * len(plan)
        relative = [(credit[step["index"]] or 0) * rho[step["index"]] for step in steps]
    return split(
        # A schedule may be zero where all the credits are.
        relative if any(relative) else [1.0] * len(steps),
        tokens,
        remainder=settings.remainder,
        minimum=max(1, settings.min_step),  # no call can be made with a cap of 0
    )


def route_next_wave(state: State, settings: Settings) -> str | list[Send]:
    """Return what follows: a ``solve`` for each sub-question of the next wave, or the synthesis.

    Args:
        state: The state, with a plan and shares.
        settings: The settings of the run.
    """
    if not settings.splits_budget or (not settings.is_stepwise and len(state["plan"]) > 1):
        return "answer"
    plan, ceiling = state["plan"], state["ceiling"]
    if ceiling is not None and spent(state["charges"]) >= ceiling:
        return "synthesize"  # nothing more is to be paid
    results = {result["index"]: result for result in state["results"]}
    tasks = [
        SolveTask(
            settings=state["settings"],
            query=state["query"],
            plan=plan,
            results=[results[index] for index in needed_steps(plan, step["index"], settings)],
            index=step["index"],
            budget=state["shares"][step["index"]],
            run_id=state["run_id"],
            spent=spending(state["charges"]),
        )
        for step in next_wave(plan, results, settings)
    ]
    return [Send("solve", task) for task in tasks] or "synthesize"


def next_wave(
    plan: Sequence[SubQuestion], done: Collection[int], settings: Settings
) -> list[SubQuestion]:
    """Return the sub-questions whose dependencies are done; only the first unless in parallel.

    The final one waits for all others, whatever it was planned to depend on: it puts together what
    they found.

    Args:
        plan: The sub-questions.
        done: Indices of those that are solved.
        settings: The settings of the run.
    """
    wave = [
        step
        for step in plan
        if step["index"] not in done
        and all(needed in done for needed in _direct(plan, step["index"], settings))
    ]
    return wave if settings.parallel else wave[:1]


def needed_steps(plan: Sequence[SubQuestion], index: int, settings: Settings) -> list[int]:
    """Return the indices whose answers a sub-question is shown: its dependencies and theirs.

    Args:
        plan: The sub-questions.
        index: The sub-question.
        settings: The settings of the run.
    """
    needed: set[int] = set()
    open_ends = _direct(plan, index, settings)
    while open_ends:
        last = open_ends.pop()
        if last not in needed:
            needed.add(last)
            open_ends += plan[last]["depends_on"]
    return sorted(needed)


def is_final(plan: Sequence[SubQuestion], index: int, settings: Settings) -> bool:
    """Return whether a sub-question also has to give the final answer.

    Args:
        plan: The sub-questions.
        index: The sub-question.
        settings: The settings of the run.
    """
    return len(plan) == 1 or (settings.synthesis == "last_step" and index == len(plan) - 1)


def _direct(plan: Sequence[SubQuestion], index: int, settings: Settings) -> list[int]:
    return list(range(index)) if is_final(plan, index, settings) else [*plan[index]["depends_on"]]
