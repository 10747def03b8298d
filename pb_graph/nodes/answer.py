"""Answers the whole question in one call: every method but the stepwise one ends here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pb_graph.budget.ledger import spent
from pb_graph.errors import ModelCallError
from pb_graph.models.reply import Purpose
from pb_graph.nodes.within import cap_of, within
from pb_graph.prompts import whole_question

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pb_graph.nodes.contract import Run, Steps


def answer(state: Mapping[str, Any], run: Run) -> Steps:
    """Write ``answer``; an answer that failed is empty, and the warnings say why."""
    query, settings, budget = state["query"], run.settings, state["budget"]
    shares = {int(index): share for index, share in state["shares"].items()}
    messages = whole_question(
        query,
        state["plan"],
        budget=None if shares else budget,
        shares=shares or None,
        unit=settings.prompt_unit,
    )
    ceiling = state["ceiling"]
    if ceiling is None:
        ceiling = spent(state["charges"]) + cap_of(budget, settings)
    update: dict[str, Any] = {"ceiling": ceiling, "answer": ""}
    try:
        outcome = yield from within(
            messages, budget, settings, query, Purpose("answer"), final=True
        )
    except ModelCallError as failure:
        return update | {"warnings": [f"answer: {failure}"]}
    return update | {"answer": outcome.text, "warnings": outcome.notes("answer")}
