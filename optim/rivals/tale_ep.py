"""TALE-EP: the model estimates how many tokens the answer needs, and is told to stay below that."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pb_graph.errors import ModelCallError
from pb_graph.methods import method
from pb_graph.prompts import MethodInput, PromptMessage, question_block, single_call_prompt
from pb_graph.styles import STYLES
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from pb_graph.run.run import Run
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
    limit=lambda settings, _: settings.planner_room + settings.cutoff,
)
async def tale_ep(given: MethodInput, run: Run) -> State:
    """Make two calls. The first is charged to ``estimate``; the paper's figures leave it out."""
    from pb_graph.models.options import CallOptions  # noqa: PLC0415 -- loads LangChain

    ask: list[PromptMessage] = [
        ("human", f"{question_block(given.query, show_level=False)}\n\n{ESTIMATE}")
    ]
    purpose = Purpose("answer", level=given.query["level"])
    budget = None
    try:
        cap = run.settings.planner_room
        reply = await run.ask(ask, CallOptions(cap, purpose=purpose._replace(node="estimate")))
        budget = _number_in(reply.text)
        if budget is None:
            run.warn("method", "no number of tokens in the reply; solved without a budget")
    except ModelCallError as failure:
        run.warn(failure.code, f"{failure} Solved without a budget.")
    prompt = single_call_prompt(replace(given, style=STYLES["prose"], budget=budget))
    solved = await run.call_within_budget(prompt, budget, given.query, purpose)
    return solved.update() | {"query": {**given.query, "budget": budget}}


def _number_in(text: str) -> int | None:
    """Return the number in double brackets, else the last number there is; at least 1."""
    numbers = _BRACKETED.findall(text) or _NUMBER.findall(text)
    return max(1, int(numbers[-1].replace(",", ""))) if numbers else None
