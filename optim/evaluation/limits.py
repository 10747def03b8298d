"""What a run may use: so many answers at once, and so many tokens or answers in all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from pb_graph.errors import InputError, PlanAndBudgetError

if TYPE_CHECKING:
    from inspect_ai.dataset import Sample
    from inspect_ai.log import EvalSpec
    from inspect_ai.scorer import SampleScore
    from inspect_ai.util import EarlyStop
    from pydantic import JsonValue

    from optim.evaluation.cache import ReplyCache
    from optim.evaluation.journal import Journal


class TokenLimit:
    """Completion tokens that an evaluation may cost.

    Args:
        most: Tokens after which no new answer starts; those running are let finish. None for no
            limit.
        cache: Knows what was spent, by earlier runs too.
        together: Is told that and gives what all parts have spent; None where this is all.

    Attributes:
        refused: How many answers were not begun.
    """

    def __init__(
        self, most: int | None, cache: ReplyCache, together: Callable[[int], int] | None = None
    ) -> None:
        self.most = most
        self.refused = 0
        self._cache, self._together = cache, together

    @property
    def spent(self) -> int:
        """Completion tokens so far."""
        return self._cache.spent

    @property
    def stop(self) -> str | None:
        """Why nothing more may start; None when it may."""
        if self._cache.failure is not None:
            return str(self._cache.failure)
        if self.most is None:
            return None
        spent = self.spent if self._together is None else self._together(self.spent)
        reached = spent >= self.most
        return f"{self.most} tokens are spent" if reached else None


class ConcurrencyLimit:
    """So many at once, first come, first served; shared by all tasks."""

    def __init__(self, most: int) -> None:
        self._semaphore = asyncio.Semaphore(most)
        self._holders: set[object] = set()

    async def acquire(self, holder: object) -> None:
        """Wait for a place."""
        await self._semaphore.acquire()
        self._holders.add(holder)

    def release(self, holder: object) -> None:
        """Give the place back; harmless when it is not held."""
        if holder in self._holders:
            self._holders.remove(holder)
            self._semaphore.release()


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Inspect's early-stopping hook of one task: asked before each sample starts.

    Samples wait for their place here and not in the solver, because a sample that has started can
    no longer be left out of the log; so the limit is looked at when it matters. Once it is
    reached, only what costs nothing passes.
    """

    task: str
    places: ConcurrencyLimit
    tokens: TokenLimit
    is_free: Callable[[str, int], Awaitable[bool]]

    async def start_task(
        self,
        task: EvalSpec,  # noqa: ARG002 -- inherited
        samples: list[Sample],  # noqa: ARG002
        epochs: int,  # noqa: ARG002
    ) -> str:
        """Give the name that logs show."""
        return "max-tokens-total"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:  # noqa: A002
        """Let a sample start, now or later, or leave it out."""
        holder = (self.task, str(id), epoch)
        await self.places.acquire(holder)
        if self.tokens.stop is None or await self.is_free(str(id), epoch):
            return None
        from inspect_ai.util import EarlyStop  # noqa: PLC0415 -- tuning does without Inspect

        self.places.release(holder)
        self.tokens.refused += 1
        return EarlyStop(id=id, epoch=epoch, reason=self.tokens.stop or "")

    @contextmanager
    def held(self, question: str, epoch: int) -> Iterator[None]:
        """Keep the place that the sample was given, and give it back at the end."""
        try:
            yield
        finally:
            self.places.release((self.task, question, epoch))

    async def complete_sample(
        self,
        id: str | int,  # noqa: A002
        epoch: int,
        scores: dict[str, SampleScore],  # noqa: ARG002
    ) -> None:
        """Give back the place of a sample that never came to its solver."""
        self.places.release((self.task, str(id), epoch))

    async def complete_task(self) -> dict[str, JsonValue]:
        """Note what had been spent when the task ended."""
        return {"completion_tokens_spent": self.tokens.spent, "limit": self.tokens.most}


class BudgetSpentError(PlanAndBudgetError):
    """A limit is reached: no further answer is begun. What was finished is kept."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a tuning's folder may cost over all its starts; None means no limit.

    Attributes:
        calls: Answers, each one run of the graph.
        tokens: Completion tokens, those of the reflection model included.

    Raises:
        InputError: A limit that is not above 0.
    """

    calls: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None and not value > 0:
                msg = f"a budget of {item.name} must be above 0, not {value}"
                raise InputError(msg)


@dataclass(frozen=True, slots=True)
class Spent:
    """Answers, and completion tokens that the models wrote: of all starts together."""

    calls: int = 0
    tokens: int = 0


class Meter:
    """Counts a tuning's answers and tokens; says when no more may begin.

    Args:
        limits: What the folder may cost.
        cache: Knows the tokens.
        answers: Every answer that was counted, under its key.

    Attributes:
        reserved: Answers to keep back for what comes last, such as the held-out comparison.
    """

    def __init__(self, limits: Limits, cache: ReplyCache, answers: Journal) -> None:
        self.limits = limits
        self.reserved = 0
        self._cache, self._answers = cache, answers
        self._begun: list[str] = []  # counts here until it is among the answers
        self._again = 0  # paid for once more, though they are among them

    @property
    def spent(self) -> Spent:
        """So far."""
        under_way = sum(key not in self._answers for key in self._begun)
        calls = len(self._answers) + under_way + self._again
        return Spent(calls, self._cache.spent)

    def begin(self, key: str) -> None:
        """Count the answer of this key, which begins now."""
        if key in self._answers:
            self._again += 1
        else:
            self._begun.append(key)

    def check(self) -> None:
        """See whether anything more may be paid for.

        Raises:
            BudgetSpentError: A limit leaves no room for it beside what is reserved.
        """
        reached = self._reached()
        if reached is not None:
            msg = (
                f"the budget of {reached} is spent; what was finished is kept, and the same "
                "command with a higher one goes on"
            )
            raise BudgetSpentError(msg)

    def _reached(self) -> str | None:
        """The first limit that is reached, in words. Reserved answers cost the mean so far."""
        spent, limits = self.spent, self.limits
        share = 1.0 + (self.reserved / spent.calls if spent.calls else 0.0)
        if limits.calls is not None and spent.calls + self.reserved >= limits.calls:
            return f"{limits.calls} answers"
        if limits.tokens is not None and spent.tokens * share >= limits.tokens:
            return f"{limits.tokens} tokens"
        return None
