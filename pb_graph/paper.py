"""Write the prompts of the paper's rows: the content of the templates in its appendix.

`Settings.paper` chooses them by ``style="paper"``. The words are ours where the behavior does not
depend on them; docs/evaluation.md lists what differs.
"""

from __future__ import annotations

from pb_graph.methods import METHODS
from pb_graph.prompts import (
    LAST_LINE,
    MethodInput,
    PromptMessage,
    human,
    question_block,
    sub_question_line,
)

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


def planned_prompt(given: MethodInput) -> list[PromptMessage]:
    """Return the prompt that asks the whole question with its plan in one call, as there.

    Args:
        given: The question with its plan. Without a plan, none was found. Shares are tokens, which
            the paper calls words.
    """
    query, plan, method = given.query, given.plan, METHODS[given.settings.method]
    lines = [sub_question_line(step) for step in plan] or [_WITHOUT_PLAN]
    budget = given.budget
    told = [given.shares[step["index"]] for step in plan] if given.shares else []
    if method.splits and not plan and budget is not None:
        told, budget = [budget], None
    for place, share in enumerate(told):
        lines[place] += f" Only think a little, and solve it directly in up to {share} words."
    strictly = " strictly" if method.splits else ""
    wanted = query["answer_format"] or LAST_LINE[0].upper() + LAST_LINE[1:]
    parts = [_FRAME, question_block(query, show_level=True), "\n".join([_OUTLINE, *lines])]
    parts.append(f"Give the final answer{strictly} in this format:\n{wanted}")
    if budget is not None:
        parts.append(f"Think step by step, and use less than {budget} tokens.")
    system: list[PromptMessage] = [("system", query["instruction"])] if query["instruction"] else []
    return [*system, human("\n\n".join(parts), query)]
