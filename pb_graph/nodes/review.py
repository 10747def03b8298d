"""Lets a human review the plan: the run pauses, and goes on with what they send back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.types import interrupt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pb_graph.settings import explained
from pb_graph.state import SubQuestion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pb_graph.nodes.contract import Run, Steps

HELP = (
    "Resume with true to accept the plan, or with {'plan': [...]}: a list of sub-questions, each a "
    "text or {'question', 'hint', 'depends_on'}, where depends_on counts from 0."
)


class EditedStep(BaseModel):
    """A sub-question as a reviewer sends it."""

    model_config = ConfigDict(extra="ignore")

    question: str = Field(min_length=1, max_length=2000)
    hint: str = Field(default="", max_length=2000)
    depends_on: list[int] | None = None


class PlanEdit(BaseModel):
    """A reviewer's plan."""

    model_config = ConfigDict(extra="forbid")

    plan: list[EditedStep | str] = Field(min_length=1)


def review(state: Mapping[str, Any], run: Run) -> Steps:
    """Interrupt with the plan until the answer is an acceptance or a valid edit."""
    yield from ()  # no model call
    question: dict[str, Any] = {"plan": state["plan"], "help": HELP}
    while True:
        answer = interrupt(question)
        if answer is True or answer is None:
            return {}
        try:
            return {"plan": _edited(answer, run.settings.max_steps)}
        except ValueError as error:  # pydantic's ValidationError is one
            question = {"plan": state["plan"], "help": HELP, "error": _explained(error)}


def _edited(answer: object, max_steps: int) -> list[SubQuestion]:
    if not isinstance(answer, dict):
        msg = f"expected true or {{'plan': [...]}}, not {answer!r:.100}"
        raise ValueError(msg)  # noqa: TRY004 -- the reviewer is told, nothing is raised to anyone
    edit = PlanEdit.model_validate(answer)
    if len(edit.plan) > max_steps:
        msg = f"the plan has {len(edit.plan)} sub-questions; Settings.max_steps allows {max_steps}"
        raise ValueError(msg)
    steps = [EditedStep(question=step) if isinstance(step, str) else step for step in edit.plan]
    return [_sub_question(index, step) for index, step in enumerate(steps)]


def _sub_question(index: int, step: EditedStep) -> SubQuestion:
    depends_on = step.depends_on
    if depends_on is None:
        depends_on = [index - 1] if index else []
    if not all(0 <= needed < index for needed in depends_on):
        msg = f"sub-question {index} depends on {depends_on}, but only earlier ones can be needed"
        raise ValueError(msg)
    return SubQuestion(
        index=index,
        question=step.question,
        hint=step.hint,
        depends_on=sorted(set(depends_on)),
        level=None,
        credit=None,
    )


def _explained(error: ValueError) -> str:
    return explained(error) if isinstance(error, ValidationError) else str(error)
