"""Pause an agent or a graph whose budget is used up, until a decision resumes it."""

from __future__ import annotations

from typing import Literal, Self

from langgraph.types import interrupt
from pydantic import BaseModel, Field, model_validator
from typing_extensions import TypedDict

from pb_graph.budget.account import Budget
from pb_graph.budget.rates import Unit
from pb_graph.errors import BudgetUsedUpError
from pb_graph.types import Spending

OnUsedUp = Literal["answer", "pause", "error"]
Decision = Literal["raise", "finish", "stop"]

_MAX_SHOWN = 2000  # characters of a message


class BudgetPause(TypedDict):
    """Interrupt value of an agent that has only its reserve left, or of a graph."""

    reason: str
    unit: Unit
    total: float
    spent: float
    """The amount spent, in `unit`; unknown bills count as the most they can be."""
    left: float
    """The amount left, in `unit`; for an agent the reserve for the final answer."""
    tokens: Spending
    """Tokens spent by model."""
    asked: str
    """The end of the message that the model was about to be asked, or the question."""


class BudgetDecision(BaseModel):
    """The value that resumes a paused run: `Command(resume={"action": "raise", "by": 2000})`."""

    action: Decision = Field(
        description="raise: go on with more. finish: give a final answer out of the reserve. stop: "
        "end with a message."
    )
    by: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="For raise: tokens or dollars, in the budget's unit.",
    )

    @model_validator(mode="after")
    def _has_amount(self) -> Self:
        if self.action == "raise" and self.by is None:
            msg = "the action 'raise' needs an amount: set 'by'"
            raise ValueError(msg)
        return self


def pause_of(account: Budget, error: BudgetUsedUpError, prompt: str) -> BudgetPause:
    """Return what a pause tells.

    Args:
        account: The account that has too little left.
        error: The reason.
        prompt: The message that the model was about to be asked.
    """
    return BudgetPause(
        reason=str(error),
        unit=account.unit,
        total=account.total,
        spent=account.spent + account.unknown,
        left=account.left_with_kept,
        tokens=account.spending,
        asked=prompt[-_MAX_SHOWN:],
    )


def read_decision(account: Budget, pause: BudgetPause) -> Decision:
    """Interrupt the run for a decision, and raise the account's total if that is decided.

    Args:
        account: The account that has too little left.
        pause: What the pause tells.

    Raises:
        GraphInterrupt: If the run pauses here.
    """
    decision = interrupt(pause, response_schema=BudgetDecision)
    if decision.by is not None and decision.action == "raise":
        is_money = account.unit == "dollars"
        account.raise_to(account.total + (decision.by if is_money else int(decision.by)))
    return decision.action
