"""TALE-EP: the model estimates how many tokens the answer needs, and is told to stay below that."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pb_graph.budget.context import available_tokens
from pb_graph.budget.ledger import most_billed
from pb_graph.errors import ModelCallError
from pb_graph.methods.registry import Asked, method
from pb_graph.prompts import Turn, problem, system, whole_question
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from pb_graph.runtime.budgeted_call import NodeContext
    from pb_graph.state import State

ESTIMATE = (
    "Do not solve this. Estimate the smallest number of tokens in which a complete and correct "
    "answer can be written, with the steps that lead to it. Reply with that number alone, in "
    "double square brackets: [[number]]"
)
_BRACKETED = re.compile(r"\[\[\D{0,20}(\d[\d,]{0,8})")
_NUMBER = re.compile(r"\d[\d,]{0,8}")


@method(
    "tale_ep",
    "Has the tokens of the answer estimated first, and says that number as the budget.",
    source="arXiv:2412.18547",
    uses=("planner_cap", "enforcement", "reserve", "prompt_unit"),
    ceiling=lambda settings, _: settings.planner_cap + settings.cutoff,
)
async def tale_ep(asked: Asked, run: NodeContext) -> State:
    """Two calls. The first is charged to ``estimate``; the paper leaves it out of its figures."""
    ask: list[Turn] = [
        system(asked.query),
        ("human", f"{problem(asked.query, show_level=False)}\n\n{ESTIMATE}"),
    ]
    cap, purpose = run.settings.planner_cap, Purpose("answer", level=asked.query["level"])
    # Half of a shared budget is for the answer.
    cap = max(1, min(cap, available_tokens(2 * cap) // 2))
    budget, warnings = None, []
    try:
        reply = await run.calls.solver(ask, cap, replace(purpose, node="estimate"))
        billed, budget = reply.most_billed, _number_in(reply.text)
        if budget is None:
            warnings.append("estimate: no number of tokens in the reply; solved without a budget")
    except ModelCallError as failure:
        billed = most_billed(failure.lost)
        warnings.append(f"estimate: {failure} Solved without a budget.")
    ceiling = billed + available_tokens(run.cap_of(budget), include_pending=True)
    prompt = whole_question(asked.query, asked.settings, budget=budget)
    solved = await run.call_within_budget(prompt, budget, asked.query, purpose)
    warnings += solved.notes("answer")
    return solved.update() | {"total": budget, "ceiling": ceiling, "warnings": warnings}


def _number_in(text: str) -> int | None:
    """The number in double brackets, else the last one there is; at least 1."""
    found = _BRACKETED.findall(text) or _NUMBER.findall(text)
    return max(1, int(found[-1].replace(",", ""))) if found else None
