"""The progress events of a run, in ``stream_mode="custom"``, plain JSON."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict  # pydantic cannot read typing's own before Python 3.12

from pb_graph.types import Charge, QueryUsage, StepResult, SubQuestion


class QuestionTaken(TypedDict):
    """The question was read and checked."""

    event: Literal["intake"]
    method: str
    ceiling: int
    """Completion tokens that the question cannot exceed, planning included."""


class PlanMade(TypedDict):
    """There is a plan; again when a reviewer, or too small a budget, has changed it."""

    event: Literal["plan"]
    steps: list[SubQuestion]


class DifficultyEstimated(TypedDict):
    """The level of the question, and of its sub-questions where they matter, is known."""

    event: Literal["estimate"]
    level: int | None
    steps: list[SubQuestion]


class BudgetsSet(TypedDict):
    """The budget was split; again before each wave of sub-questions that gets what is left."""

    event: Literal["budgets"]
    level: int | None
    budget: int
    """Solving tokens in all."""
    shares: list[int]
    """Tokens of each sub-question, finished ones included; empty for a method without shares."""


class StepStarted(TypedDict):
    """A sub-question is being solved."""

    event: Literal["step_started"]
    index: int
    budget: int


class StepDone(StepResult):
    """A sub-question is solved, or has failed; with the tokens it took."""

    event: Literal["step_done"]


class CallMade(Charge):
    """A model was called, and this is what it was charged.

    Told again when its node starts over after a crash; the report counts it once.
    """

    event: Literal["call"]


class Answered(TypedDict):
    """The run is over; the answer is empty when there is none."""

    event: Literal["answer"]
    answer: str
    usage: QueryUsage


Event = (
    QuestionTaken
    | PlanMade
    | DifficultyEstimated
    | BudgetsSet
    | StepStarted
    | StepDone
    | CallMade
    | Answered
)
"""Any of them; ``event`` tells which."""
