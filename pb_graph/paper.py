"""Write the prompts of the paper's rows: the content of the templates in its appendix.

`Settings.paper` chooses them by ``style="paper"``. The words are ours where the behavior does not
depend on them; docs/evaluation.md lists what differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pb_graph.methods import METHODS
from pb_graph.prompts import (
    LAST_LINE,
    STYLES,
    WITH_WORKING,
    PromptMessage,
    Style,
    human,
    question_block,
    single_call_prompt,
    sub_question_line,
)
from pb_graph.settings import Settings
from pb_graph.types import Query, SubQuestion

_FRAME = """The problem comes with its difficulty, a level out of 5, and with sub-questions as a \
hint. All the credit is for a correct final answer to the whole problem. Solve it efficiently and \
clearly, to earn as much credit as possible."""
_OUTLINE = """You may follow these sub-questions as you think, or feel free to use any other \
method that works best for the final answer:"""
_WITHOUT_PLAN = "1. Solve the problem directly."
"""Stands in the place of a plan that was not found, as in the authors' code."""

PLANNER = """You are an experienced expert and designer of exam questions, and help students \
break a hard problem into 2 to 5 simpler sub-questions: few for an easy problem, more for a hard \
one, and none in too much detail. Each one builds on the one before it, and its hint says what the \
student achieves by it; no hint tells the solution. Do not reason and do not think about it: write \
the sub-questions at once, by your first impression."""
GRADER = """You are an experienced expert and designer of exam questions. Compare the problem and \
its sub-questions with the problems of known level. Adhere to the given sub-questions, and make no \
new ones. Their credits sum to exactly 100."""

PROBLEM = "What are the last two digits of 3 * 33 * 333 * ..., a product of 50 such factors?"
STEPS = (
    "What is the product modulo 4? | reduce each factor, as 100 is a multiple of 4",
    "What is the product modulo 25? | reduce each factor, and write equal ones as a power",
    "Which number below 100 fits both? | join the results by the Chinese remainder theorem",
)
CREDITS = (25, 45, 30)
"""A problem of level 3 with the sub-questions that a planner is shown, and their credits."""


def question_prompt(  # noqa: PLR0913 -- one argument for each thing the prompt says
    query: Query,
    settings: Settings,
    style: Style,
    plan: Sequence[SubQuestion] = (),
    *,
    budget: int | None = None,
    shares: Mapping[int, int] | None = None,
) -> list[PromptMessage]:
    """Return the prompt that asks the whole question in one call, for a row of the paper as there.

    Args:
        query: The question and what was given with it.
        settings: The settings of the run.
        style: How to write. A style with examples or words of a program replaces the template.
        plan: The sub-questions; empty where the method does not plan, or no plan was found.
        budget: The budget that the prompt states, in tokens.
        shares: Tokens of each sub-question by its index, which the paper calls words.
    """
    is_paper = settings.solver_style(query["domain"], query["level"]) == "paper"
    if not is_paper or style.examples or style.instruction != STYLES["paper"].instruction:
        return single_call_prompt(query, settings, style, plan, budget=budget, shares=shares)
    method, form = METHODS[settings.method], query["answer_format"]
    if not method.plans:
        parts = [question_block(query, show_level=False), STYLES["prose"].instruction]
        parts += [] if budget is None else [f"Use less than {budget} tokens in all."]
        parts.append(form or WITH_WORKING)
    else:
        lines = [sub_question_line(step) for step in plan] or [_WITHOUT_PLAN]
        told = [] if shares is None else [shares[step["index"]] for step in plan]
        if method.splits and not plan and budget is not None:
            told, budget = [budget], None
        for place, share in enumerate(told):
            lines[place] += f" Only think a little, and solve it directly in up to {share} words."
        strictly = " strictly" if method.splits else ""
        wanted = form or LAST_LINE[0].upper() + LAST_LINE[1:]
        parts = [_FRAME, question_block(query, show_level=True), "\n".join([_OUTLINE, *lines])]
        parts.append(f"Give the final answer{strictly} in this format:\n{wanted}")
        if budget is not None:
            parts.append(f"Think step by step, and use less than {budget} tokens.")
    messages: list[PromptMessage] = (
        [("system", query["instruction"])] if query["instruction"] else []
    )
    return [*messages, human("\n\n".join(parts), query)]
