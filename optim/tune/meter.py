"""What a tuning run has spent, over all its starts, against what it may spend."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from optim.answering import paid_for_solving
from pb_graph.errors import InputError, PlanAndBudgetError

if TYPE_CHECKING:
    from optim.journal import Journal

__all__ = ["BudgetSpentError", "Limits", "Meter", "Spent"]

_SECONDS = 60.0


class BudgetSpentError(PlanAndBudgetError):
    """A limit is reached: no further answer is begun. What was finished is kept."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run folder may cost over all its starts; None means no limit.

    Attributes:
        calls: Answers, each one run of the graph.
        tokens: Completion tokens, those of the reflection model included.
        minutes: Wall-clock minutes.

    Raises:
        InputError: A limit that is not above 0.
    """

    calls: int | None = None
    tokens: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None and not value > 0:
                msg = f"a budget of {item.name} must be above 0, not {value}"
                raise InputError(msg)


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent, this start and earlier ones together.

    Attributes:
        calls: Answers paid for.
        tokens: Completion tokens really paid: a shared plan once, reflection included.
        seconds: Wall-clock.
    """

    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def since(self, earlier: Spent) -> Spent:
        """The difference."""
        return Spent(
            self.calls - earlier.calls,
            self.tokens - earlier.tokens,
            self.seconds - earlier.seconds,
        )


class Meter:
    """Counts answers, tokens and seconds; says when no more may begin.

    Args:
        limits: What may be spent.
        clock: Journal of the seconds that earlier starts took.
        calls: Answers paid for by earlier starts.
        tokens: Completion tokens paid by earlier starts.

    Attributes:
        reserved: Answers to keep back for what comes last, such as the held-out comparison.
    """

    def __init__(self, limits: Limits, clock: Journal, *, calls: int, tokens: int) -> None:
        self.limits = limits
        self.reserved = 0
        self._clock = clock
        self._calls, self._tokens = calls, tokens
        self._earlier = _seconds(clock)
        self._began = time.monotonic()
        self._start = str(len(clock) + 1)

    @property
    def spent(self) -> Spent:
        """So far."""
        return Spent(self._calls, self._tokens, self._earlier + self._elapsed())

    def begin(self) -> None:
        """Count an answer that begins now.

        Raises:
            BudgetSpentError: A limit leaves no room for it beside what is reserved.
        """
        self.check()
        self._calls += 1

    def check(self) -> None:
        """See whether anything more may be paid for.

        Raises:
            BudgetSpentError: As `begin`.
        """
        reached = self._reached()
        if reached is not None:
            msg = (
                f"the budget of {reached} is spent; what was finished is kept, and the same "
                "command with a higher one goes on"
            )
            raise BudgetSpentError(msg)

    def pay(self, tokens: int) -> None:
        """Count the completion tokens of one call."""
        self._tokens += tokens

    def tick(self) -> None:
        """Note the time, so that a killed run does not forget it."""
        self._clock.append(self._start, {"start": self._start, "seconds": self._elapsed()})

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _reached(self) -> str | None:
        """The first limit that is reached, in words. Reserved answers cost the mean so far."""
        spent, limits = self.spent, self.limits
        share = self.reserved / spent.calls if spent.calls else 0.0
        if limits.calls is not None and spent.calls + self.reserved >= limits.calls:
            return f"{limits.calls} answers"
        if limits.tokens is not None and spent.tokens * (1.0 + share) >= limits.tokens:
            return f"{limits.tokens} tokens"
        if (
            limits.minutes is not None
            and spent.seconds * (1.0 + share) >= limits.minutes * _SECONDS
        ):
            return f"{limits.minutes:g} minutes"
        return None


def paid_tokens(answers: Journal, plans: Journal, reflections: Journal) -> int:
    """Completion tokens that a run folder has really cost."""
    planning = sum(int(entry["charge"]["output_tokens"]) for entry in plans.entries())
    thinking = sum(int(entry["charge"]["output_tokens"]) for entry in reflections.entries())
    return planning + thinking + sum(paid_for_solving(entry) for entry in answers.entries())


def _seconds(clock: Journal) -> float:
    latest = {entry["start"]: float(entry["seconds"]) for entry in clock.entries()}
    return sum(latest.values())
