"""Answers the whole question by the run's method: all but the stepwise one end here."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pb_graph.budget.context import available_tokens
from pb_graph.budget.ledger import most_billed
from pb_graph.errors import ModelCallError
from pb_graph.methods import METHODS, Asked
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from pb_graph.methods.registry import Answer, Prompt
    from pb_graph.runtime.budgeted_call import NodeContext
    from pb_graph.state import State


async def answer(state: State, run: NodeContext) -> State:
    """Write ``answer``; an answer that failed is empty, and the warnings say why."""
    method, ceiling = METHODS[run.settings.method], state["ceiling"]
    if ceiling is None:
        most = method.most(run.settings, state["query"])
        billed = most_billed(state["charges"])
        ceiling = billed + available_tokens(most, include_pending=True)
    asked = Asked(
        query=state["query"],
        settings=run.settings,
        budget=state["total"],
        plan=state["plan"],
        shares={int(index): share for index, share in state["shares"].items()} or None,
    )
    update: State = {"ceiling": ceiling, "answer": ""}
    try:
        if not method.is_prompt:
            return update | await cast("Answer", method.function)(asked, run)
        prompt = cast("Prompt", method.function)(asked)
        purpose = Purpose("answer", level=asked.query["level"])
        reply = await run.call_within_budget(
            prompt, asked.budget, asked.query, purpose, thinking=method.thinking
        )
        return update | reply.update()
    except ModelCallError as failure:
        return update | {"warnings": [f"answer: {failure}"]}
