"""The exceptions of the package. Their messages say what is wrong and what to do."""

from __future__ import annotations

import copyreg
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

    from pb_graph.types import Charge, Report, WarningCode


class PlanAndBudgetError(RuntimeError):
    """Base class of our errors: a RuntimeError, as LangGraph Server shows built-in errors only."""

    def __reduce__(self) -> tuple[object, ...]:  # without calling the constructor
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


def how_to_install(extra: str) -> str:
    """Return the sentence that tells how to install an extra; the package is on no index yet."""
    return f"Install it in a checkout of the repository: pip install '.[{extra}]'."


class InputError(PlanAndBudgetError, ValueError):
    """A question, a setting, an option or a file is invalid."""


PlannerProgramError = InputError  # of a planner program that does not fit


class ModelSetupError(PlanAndBudgetError):
    """There is no usable chat model: an extra, a key or the weights are missing."""


class UnknownModelError(ModelSetupError, InputError):
    """No provider and no local model has the given name."""


class ModelCallError(PlanAndBudgetError):
    """A call to a chat model failed, and its retries did, too.

    Attributes:
        code: The kind of the warning in the report, if the question goes on.
        status: The HTTP status, if there was one.
        lost: The charges of the attempts that were billed, or may have been.
    """

    code: WarningCode = "call_failed"

    def __init__(
        self, message: str, status: int | None = None, lost: tuple[Charge, ...] = ()
    ) -> None:
        super().__init__(message)
        self.status, self.lost = status, lost


class BudgetUsedUpError(ModelCallError):
    """A call was not made: its budget is used up, or its prompt does not fit. `note` says which."""

    code = "budget_used_up"

    def __init__(
        self, total: str, *, cost: str = "", left: str = "", of: str = "prompt", lost: str = ""
    ) -> None:
        self.note = f"The budget of {total} is used up."
        if cost:
            self.note = f"The {of} may cost {cost}, and {left} of the budget of {total} are left."
        if lost:
            self.note += f" Failed calls whose bill is unknown, such as timeouts, count {lost}:"
            self.note += " `per_call` limits each of them."
        super().__init__(f"{self.note} Raise the total, or open another budget.")


class NoAnswerError(PlanAndBudgetError):
    """The question got no answer; `report` has its spending and the reasons of failed steps."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of an error: "; did you mean 'NAME'?", or nothing if no name is similar."""
    close = get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def describe_errors(error: ValidationError) -> str:
    """Describe each validation error with the field as the user wrote it, without union members."""
    faults = []
    for fault in error.errors(include_url=False, include_input=False):
        names = [str(part) for part in fault["loc"] if str(part).replace("_", "").isalnum()]
        where = f"{'.'.join(names)}: " if names else ""
        faults.append(f"{where}{fault['msg'].removeprefix('Value error, ')}")
    return "; ".join(dict.fromkeys(faults))
