"""Answers the whole question by the run's method: all but the stepwise one end here."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pb_graph.budget.around import at_hand
from pb_graph.budget.ledger import most_billed
from pb_graph.errors import ModelCallError
from pb_graph.methods import METHODS, Asked
from pb_graph.models.reply import Purpose

if TYPE_CHECKING:
    from pb_graph.methods import Method
    from pb_graph.methods.registry import Answer, Prompt
    from pb_graph.runtime.node import NodeContext
    from pb_graph.state import State


async def answer(state: State, run: NodeContext) -> State:
    """Write ``answer``; an answer that failed is empty, and the warnings say why."""
    method, ceiling = METHODS[run.settings.method], state["ceiling"]
    if ceiling is None:
        most = method.most(run.settings, state["query"])
        billed = most_billed(state["charges"])
        ceiling = billed + at_hand(most, later=True)
    asked = Asked(
        query=state["query"],
        settings=run.settings,
        budget=state["total"],
        plan=state["plan"],
        shares={int(index): share for index, share in state["shares"].items()} or None,
    )
    update: State = {"ceiling": ceiling, "answer": ""}
    try:
        if method.is_prompt:
            return update | await _asked_once(method, asked, run)
        return update | await cast("Answer", method.function)(asked, run)
    except ModelCallError as failure:
        return update | {"warnings": [f"answer: {failure}"]}


async def _asked_once(method: Method, asked: Asked, run: NodeContext) -> State:
    reply = await run.call_within_budget(
        cast("Prompt", method.function)(asked),
        asked.budget,
        asked.query,
        Purpose("answer", level=asked.query["level"]),
        thinking=method.thinking,
    )
    return reply.update()
