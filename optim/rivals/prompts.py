"""Define the published methods with a single prompt: a style, in some cases with examples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pb_graph.methods import method
from pb_graph.prompts import MethodInput, PromptMessage, single_call_prompt
from pb_graph.styles import STYLES, Style
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pb_graph.run.run import Run
    from pb_graph.state import State

STYLE_OF: Mapping[str, Style] = {
    "chain_of_draft": STYLES["draft"],
    "concise": STYLES["concise"],
    "plan_and_solve": Style(
        "First understand the problem and make a plan to solve it. Then carry out the plan and "
        "solve the problem step by step."
    ),
    "thinking_off": STYLES["prose"],
}


@method(
    "chain_of_draft",
    "Notes each step of its reasoning in at most five words, after worked examples.",
    source="arXiv:2502.18600",
)
@method("concise", "Is told to be concise, and shown one short example.", source="arXiv:2401.05618")
@method(
    "plan_and_solve",
    "Is told to make a plan first and then to carry it out, in one call.",
    source="arXiv:2305.04091",
)
@method(
    "thinking_off",
    "Asks the plain question with the model's thinking switched off, where its provider can.",
    source="NoThinking, arXiv:2504.09858",
    thinking="off",
)
def ask_in_own_style(given: MethodInput) -> list[PromptMessage]:
    """Return the question in the style of the method that the settings name."""
    return single_call_prompt(replace(given, style=STYLE_OF[given.settings.method], budget=None))


@method(
    "program_aided",
    "Writes the calculation as assignments, whose result is worked out exactly.",
    source="PAL, arXiv:2211.10435",
)
async def program_aided(given: MethodInput, run: Run) -> State:
    """Return the calculation with its result. Without a result the model is asked for it."""
    query, style = given.query, STYLES["calculation"]
    prompt = single_call_prompt(replace(given, style=style, budget=None))
    purpose = Purpose("answer", level=query["level"])
    reply = await run.call_within_budget(
        prompt, given.budget, query, purpose, compute=style.compute
    )
    return reply.update()
