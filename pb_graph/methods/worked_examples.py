"""Worked examples: the style of working is shown by short answers to earlier questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.examples import examples_for
from pb_graph.methods.registry import OURS, Asked, method
from pb_graph.prompts import SHORT_LINES, Teaching, Turn, after_examples, exchanges
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from pb_graph.runtime.budgeted_call import NodeContext
    from pb_graph.state import State


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
    reply = await run.call_within_budget(
        await examples_prompt(asked, run),
        asked.budget,
        asked.query,
        Purpose("answer", level=asked.query["level"]),
    )
    return reply.update()


async def examples_prompt(asked: Asked, run: NodeContext) -> list[Turn]:
    """The question after what a program tells; after the package's examples where it has none."""
    told = await run.calls.teaching()
    if told is None or not told.examples:
        own = exchanges(asked.query, examples_for(asked.query["domain"]))
        told = Teaching(told.instruction if told else SHORT_LINES, own)
    return after_examples(asked.query, told)
