"""Plan-and-Solve: plan and solution in one call, by one sentence behind the question."""

from __future__ import annotations

from pb_graph.methods.registry import Asked, method
from pb_graph.prompts import Turn, whole_question

TRIGGER = (
    "First understand the problem and make a plan to solve it. Then carry out the plan and solve "
    "the problem step by step."
)


@method(
    "plan_and_solve",
    "Is told to make a plan first and then to carry it out, in one call.",
    source="arXiv:2305.04091",
)
def plan_and_solve(asked: Asked) -> list[Turn]:
    """The question, with the wish for a plan where others wish for steps."""
    return whole_question(asked.query, asked.settings, way=TRIGGER)
