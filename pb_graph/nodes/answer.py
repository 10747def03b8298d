"""Answers the whole question by the run's method: all but the stepwise one end here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.budget.context import available_tokens
from pb_graph.budget.ledger import most_billed
from pb_graph.errors import ModelCallError
from pb_graph.methods import METHODS, MethodInput
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from pb_graph.run.run import Run
    from pb_graph.state import State


async def answer(state: State, run: Run) -> State:
    """Write ``answer``; an answer that failed is empty, and the warnings say why."""
    method, ceiling = METHODS[run.settings.method], state["ceiling"]
    if ceiling is None:
        most = method.token_bound(run.settings, state["query"])
        billed = most_billed(state["charges"])
        ceiling = billed + available_tokens(most, include_pending=True)
    is_plan = len(state["plan"]) > 1
    given = MethodInput(
        query=state["query"],
        settings=run.settings,
        style=await run.style(state["query"]),
        budget=state["total"],
        plan=state["plan"] if is_plan else (),
        shares={int(index): share for index, share in state["shares"].items()} or None,
    )
    update: State = {"ceiling": ceiling, "answer": ""}
    try:
        if not method.is_prompt:
            made: State = await method.function(given, run)
            return update | made
        reply = await run.call_within_budget(
            method.function(given),
            given.budget,
            given.query,
            Purpose("answer", level=given.query["level"]),
            thinking=method.thinking,
        )
        return update | reply.update()
    except ModelCallError as failure:
        return update | {"warnings": [f"answer: {failure}"]}
