"""Answers the whole question in one call: every method but the stepwise one ends here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.budget.ledger import spent
from pb_graph.errors import ModelCallError
from pb_graph.models.reply import Purpose
from pb_graph.prompts import whole_question
from pb_graph.runtime.budgeted_call import call_within_budget, cap_of

if TYPE_CHECKING:
    from pb_graph.runtime.node import NodeContext
    from pb_graph.state import State


async def answer(state: State, run: NodeContext) -> State:
    """Write ``answer``; an answer that failed is empty, and the warnings say why."""
    query, settings, budget = state["query"], run.settings, state["total"]
    shares = {int(index): share for index, share in state["shares"].items()}
    messages = whole_question(
        query,
        settings,
        state["plan"],
        budget=None if shares else budget,
        shares=shares or None,
    )
    ceiling = state["ceiling"]
    if ceiling is None:
        ceiling = spent(state["charges"]) + cap_of(budget, settings)
    update: State = {"ceiling": ceiling, "answer": ""}
    try:
        reply = await call_within_budget(
            run,
            messages,
            budget,
            query,
            Purpose("answer", level=query["level"]),
            closing=True,
            stream=True,
        )
    except ModelCallError as failure:
        return update | {"warnings": [f"answer: {failure}"]}
    return update | {"answer": reply.text, "warnings": reply.notes("answer")}
