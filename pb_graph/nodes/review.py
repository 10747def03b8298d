"""Lets a human review plan and budgets: the run pauses, and goes on with what they send back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from langgraph.types import Overwrite, interrupt
from pydantic import ValidationError

from pb_graph.errors import describe_errors
from pb_graph.nodes.plan_edit import PlanEdit, apply_edits

if TYPE_CHECKING:
    from pb_graph.run.run import Run
    from pb_graph.settings import Settings
    from pb_graph.state import State

HELP = (
    "Resume with true to accept, or with {'plan': [...], 'budget': 500}: either, or both. The plan "
    "lists the sub-questions in their order: an index keeps one, a text is a new one, and "
    "{'index', 'question', 'hint', 'depends_on', 'level', 'credit'} changes one; those left out "
    "are dropped. 'depends_on' names earlier ones by index, or, in a list without any index, by "
    "place from 0. The budget is the total in tokens."
)


def review(state: State, run: Run) -> State:
    """Interrupt until the answer is an acceptance or a valid edit, which is allocated anew.

    An edited plan is not estimated again: see `apply_edits` for the grades that it goes on with.
    The settings of the run note that it has been reviewed, and a total that the reviewer chose.
    """
    shown = {
        "plan": state["plan"],
        "level": state["query"]["level"],
        "budget": state["total"],
        "budgets": [state["shares"][str(index)] for index in range(len(state["shares"]))],
        "ceiling": state["ceiling"],
        "warnings": state["warnings"],
        "help": HELP,
    }
    question: dict[str, Any] = shown
    while True:
        try:
            return _update(interrupt(question), state, run)
        except ValueError as error:  # pydantic's ValidationError is one
            told = describe_errors(error) if isinstance(error, ValidationError) else str(error)
            question = {**shown, "error": told}


def _update(answer: object, state: State, run: Run) -> State:
    """What an answer writes; what was edited, without budget and shares, is allocated once more."""
    settings = state["settings"] | {"review_plan": False}
    # A model that was out of reach may be back, after a pause.
    update: dict[str, Any] = {"settings": settings, "unusable": Overwrite({})}
    if answer is not True and answer is not None:
        edit = PlanEdit.model_validate(answer) if isinstance(answer, dict) else PlanEdit()
        if edit == PlanEdit():
            msg = f"expected true, or {{'plan': [...]}} and {{'budget': ...}}, not {answer!r:.100}"
            raise ValueError(msg)
        plan = state["plan"] if edit.plan is None else apply_edits(edit.plan, state["plan"])
        _check_size(len(plan), edit.budget, state["total"], run.settings)
        settings["budget"] = edit.budget or settings["budget"]
        run.emit({"event": "plan", "steps": plan})
        update |= {"plan": plan, "total": None, "ceiling": None, "shares": {}}
    return cast("State", update)


def _check_size(steps: int, wanted: int | None, before: int | None, settings: Settings) -> None:
    if steps > settings.max_steps:
        msg = f"the plan has {steps} sub-questions; Settings.max_steps allows {settings.max_steps}"
        raise ValueError(msg)
    if wanted is not None and not settings.has_budget:
        msg = f"the method {settings.method} has no budget to change"
        raise ValueError(msg)
    total = wanted or before
    if settings.splits_budget and total is not None and total < steps:
        msg = f"{total} tokens cannot pay {steps} sub-questions: drop some, or raise the budget"
        raise ValueError(msg)
