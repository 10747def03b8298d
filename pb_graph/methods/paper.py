"""The five methods of the paper: one prompt, with more or less of a plan and a budget in it."""

from __future__ import annotations

from pb_graph.methods.registry import PAPER, Asked, method
from pb_graph.prompts import Turn, whole_question


# The lowest is registered first.
@method(
    "plan_and_budget",
    "Plans, splits the budget over the sub-questions, and solves each within its share.",
    source=PAPER,
    plans=True,
    budgets=True,
    splits=True,
)
@method(
    "planned_global_budget",
    "Asks the question with a plan and says a total budget.",
    source=PAPER,
    plans=True,
    budgets=True,
)
@method("planned_vanilla", "Asks the question with a plan.", source=PAPER, plans=True)
@method("global_budget", "Asks the question and says a total budget.", source=PAPER, budgets=True)
@method("vanilla", "Asks the question, and no more.", source=PAPER)
def whole(asked: Asked) -> list[Turn]:
    """The question with all that is known of a plan and of budgets."""
    return whole_question(
        asked.query,
        asked.settings,
        asked.plan,
        budget=None if asked.shares else asked.budget,
        shares=asked.shares,
    )
