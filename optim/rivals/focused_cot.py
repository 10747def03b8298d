"""Focused chain of thought: lists the facts first, and reasons over this list alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pb_graph.methods import method
from pb_graph.prompts import MethodInput, PromptMessage, question_block, single_call_prompt
from pb_graph.styles import STYLES
from pb_graph.types import Purpose, Query

if TYPE_CHECKING:
    from pb_graph.run.run import Run
    from pb_graph.state import State

EXTRACT = (
    "Do not solve this. Write down what is needed to solve it, and nothing else: each fact, with "
    "its numbers, and then what is asked, in this form:\n<facts>\n<fact>...</fact>\n</facts>\n"
    "<asked>...</asked>"
)


@method(
    "focused_cot",
    "Has the facts of the question listed first, and reasons over that list alone.",
    source="arXiv:2511.22176",
    limit=lambda settings, _: settings.planner_room + settings.cutoff,
)
async def focused_cot(given: MethodInput, run: Run) -> State:
    """Make two calls; the first one, for the list, is charged to ``plan``."""
    from pb_graph.models.options import CallOptions  # noqa: PLC0415 -- loads LangChain

    query: Query = given.query
    block = question_block(query, show_level=False)
    ask: list[PromptMessage] = [("human", f"{block}\n\n{EXTRACT}")]
    purpose = Purpose("answer", level=query["level"])
    cap = run.settings.planner_room
    listed = await run.ask(ask, CallOptions(cap, purpose=purpose._replace(node="plan")))
    if listed.text:
        query = {**query, "question": listed.text, "reference": None}
    prompt = single_call_prompt(replace(given, query=query, style=STYLES["prose"], budget=None))
    return (await run.call_within_budget(prompt, given.budget, query, purpose)).update()
