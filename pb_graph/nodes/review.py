"""Let a person review plan and budgets: the run pauses, and goes on with what they send back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from langgraph.types import interrupt
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pb_graph.budget.rules import Level
from pb_graph.errors import describe_errors
from pb_graph.types import SubQuestion

if TYPE_CHECKING:
    from pb_graph.run.run import Run
    from pb_graph.state import State

HELP = (
    "Resume with true to accept, or with {'plan': [...], 'budget': 500}: either, or both. The plan "
    "is the whole list of its steps, each with its 'question' and, if wanted, 'hint', 'depends_on' "
    "(earlier steps by their place from 0; if left out, the step before), 'level' and 'credit'. "
    "The budget is the total in tokens."
)

_Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)]


class ReviewedStep(BaseModel):
    """A sub-question as a reviewer sends it; its place in the list counts, not its ``index``."""

    model_config = ConfigDict(extra="forbid")

    index: int | None = None
    question: Annotated[_Text, Field(min_length=1)]
    hint: _Text = ""
    depends_on: list[int] | None = None
    level: Level | None = None
    credit: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class Review(BaseModel):
    """A reviewer's plan, a new total, or both."""

    model_config = ConfigDict(extra="forbid")

    plan: Annotated[list[ReviewedStep], Field(min_length=1)] | None = None
    budget: Annotated[int, Field(ge=1, strict=True)] | None = None


def review(state: State, run: Run) -> State:
    """Interrupt until the answer is an acceptance or a valid edit, which is allocated anew.

    An edited plan is not estimated again: it goes on with the levels and credits that it has.
    The settings of the run note that it has been reviewed, and a total that the reviewer chose.
    """
    shown = {
        "plan": state["plan"],
        "level": state["query"]["level"],
        "budget": state["total"],
        "budgets": state["shares"],
        "ceiling": state["ceiling"],
        "warnings": state["warnings"],
        "help": HELP,
    }
    answer = interrupt(shown)
    while answer is not True:
        try:
            return _edited(Review.model_validate(answer), state, run)
        except ValidationError as error:
            answer = interrupt({**shown, "error": describe_errors(error)})
    return {"settings": state["settings"] | {"review_plan": False}}


def _edited(edit: Review, state: State, run: Run) -> State:
    """Return what an edit writes: a plan without shares, which is allocated once more."""
    plan = state["plan"] if edit.plan is None else _sub_questions(edit.plan)
    run.emit("plan", steps=plan)
    settings = state["settings"] | {"review_plan": False}
    update: State = {"settings": settings, "plan": plan, "total": None, "shares": []}
    if edit.budget is not None:  # the reviewer, and nobody else, may raise the ceiling
        settings["budget"], update["ceiling"] = edit.budget, None
    return update


def _sub_questions(steps: list[ReviewedStep]) -> list[SubQuestion]:
    plan = []
    for place, step in enumerate(steps):
        named = [place - 1] if step.depends_on is None else step.depends_on
        needed = sorted({other for other in named if 0 <= other < place})
        edited = step.model_dump() | {"index": place, "depends_on": needed}
        plan.append(cast("SubQuestion", edited))
    return plan
