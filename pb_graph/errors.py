"""The package's exceptions: each says what went wrong and what to do next."""

from __future__ import annotations

import copyreg
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

    from pb_graph.types import Charge, Report


class PlanAndBudgetError(RuntimeError):
    """Base of every error this package raises on purpose.

    A RuntimeError, because LangGraph Server shows its clients no others but those of Python.
    """

    def __reduce__(self) -> tuple[object, ...]:
        """As it is, for other processes: made without what its constructor wants."""
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class InputError(PlanAndBudgetError, ValueError):
    """The question, or something given with it, cannot be used as it is."""


class ModelSetupError(PlanAndBudgetError):
    """No usable chat model: unknown name, missing extra or key, or a server that won't start."""


class UnknownModelError(ModelSetupError, InputError):
    """No provider, or no local model, has the name that was given."""


class WeightsError(PlanAndBudgetError):
    """The weights of a local model could not be fetched, stored or verified."""


class PlannerProgramError(PlanAndBudgetError, ValueError):
    """A saved planner program does not fit this version's planner."""


class ModelCallError(PlanAndBudgetError):
    """A call to a chat model failed for good.

    Attributes:
        status: The HTTP status, where there was one.
        lost: What its attempts were charged, or may have been: those that may be paid for.
        fatal: Whether any other call of the same model would fail in the same way.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        lost: tuple[Charge, ...] = (),
        *,
        fatal: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.lost = lost
        self.fatal = fatal

    @property
    def tokens(self) -> int:
        """Completion tokens it is known to have cost, although nothing came of it."""
        return sum(charge["output_tokens"] for charge in self.lost)


class BudgetUsedUpError(ModelCallError):
    """A call was not made, since nothing is left of the budget that it was to draw on."""

    def __init__(self, total: int) -> None:
        super().__init__(
            f"Nothing is left of the budget of {total} tokens: raise it, or begin another."
        )


class NoAnswerError(PlanAndBudgetError):
    """Nothing could be answered. ``report`` tells what was spent and which step failed how."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """What ends the sentence about an unknown name: the one that was probably meant, if any is."""
    close = get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def describe_errors(error: ValidationError) -> str:
    """Each fault of a form with the field it is in, as a user knows it: without parts of unions."""
    faults = []
    for fault in error.errors(include_url=False, include_input=False):
        names = [str(part) for part in fault["loc"] if str(part).replace("_", "").isalnum()]
        faults.append(f"{'.'.join(names)}: {fault['msg'].removeprefix('Value error, ')}")
    return "; ".join(dict.fromkeys(faults))
