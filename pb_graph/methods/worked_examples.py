"""Worked examples: the style of working is shown by short answers to earlier questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.budget.ledger import Purpose
from pb_graph.examples import examples_for
from pb_graph.methods.registry import OURS, Asked, method
from pb_graph.prompts import SHORT_LINES, Teaching, after_examples, final_line

if TYPE_CHECKING:
    from pb_graph.runtime.node import NodeContext
    from pb_graph.state import Query, State


@method(
    "worked_examples",
    "Shows the model short worked examples and lets it answer in their style.",
    source=OURS,
    budgets=True,
)
async def worked_examples(asked: Asked, run: NodeContext) -> State:
    """Examples of the run's planner program, else the package's own, then the question.

    The budget is not said, which would only lengthen short answers; it is a cap.
    """
    told = await run.calls.teaching()
    reply = await run.call_within_budget(
        after_examples(asked.query, _with_examples(told, asked.query)),
        asked.budget,
        asked.query,
        Purpose("answer", level=asked.query["level"]),
    )
    return {"answer": reply.text, "warnings": reply.notes("answer")}


def _with_examples(told: Teaching | None, query: Query) -> Teaching:
    """What a program tells; the package's own examples where it brings none."""
    if told and told.examples:
        return told
    own = [
        (question, f"{working}\n{final_line(query, answer)}")
        for question, working, answer in examples_for(query["domain"])
    ]
    return Teaching(told.instruction if told else SHORT_LINES, own)
