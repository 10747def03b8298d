"""The limits of an evaluation: questions answered at once, and tokens over all methods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inspect_ai.dataset import Sample
    from inspect_ai.log import EvalSpec
    from inspect_ai.scorer import SampleScore
    from inspect_ai.util import EarlyStop
    from pydantic import JsonValue

    from optim.evaluation.store import ReplyCache

    TotalSpent = Callable[[int], Awaitable[int]]


class TokenLimit:
    """Completion tokens that an evaluation may cost, over all its methods.

    Args:
        most: Tokens after which no new answer begins; answers that have begun are finished. None
            for no limit.
        cache: Counts the tokens, those of earlier runs included.
        total_spent: Takes the tokens of this part and returns those of all parts; None where
            there is one part.

    Attributes:
        skipped: Number of answers that were not begun.
        interrupted: Whether a sample was cancelled.
    """

    def __init__(
        self, most: int | None, cache: ReplyCache, total_spent: TotalSpent | None = None
    ) -> None:
        self.most = most
        self.skipped = 0
        self.interrupted = False
        self._cache, self._total_spent = cache, total_spent

    @property
    def spent(self) -> int:
        """Completion tokens so far."""
        return self._cache.spent

    async def stop_reason(self) -> str | None:
        """Return the reason why no new answer may begin, or None."""
        if self._cache.failure is not None:
            return str(self._cache.failure)
        if self.most is None:
            return None
        spent = self.spent if self._total_spent is None else await self._total_spent(self.spent)
        return f"{self.most} tokens are spent" if spent >= self.most else None


class ConcurrencyLimit:
    """Places for questions that are answered at once, first come, first served, over all tasks."""

    def __init__(self, most: int) -> None:
        self._semaphore = asyncio.Semaphore(most)
        self._holders: set[object] = set()

    async def acquire(self, holder: object) -> None:
        """Wait for a place."""
        await self._semaphore.acquire()
        self._holders.add(holder)

    def release(self, holder: object) -> None:
        """Give the place back. A holder without a place changes nothing."""
        if holder in self._holders:
            self._holders.remove(holder)
            self._semaphore.release()


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Inspect's early-stopping hook of one task, called before each sample starts.

    Samples wait for their place here and not in the solver, because a sample that has started can
    no longer be left out of the log. Once the limit is reached, only samples that cost nothing
    start.

    Attributes:
        task: Tells the task from others.
        places: The limit of questions answered at once.
        tokens: The limit of tokens.
        is_free: Returns whether the sample of a question and epoch would cost nothing.
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
        """Return the name that logs show."""
        return "max-tokens-total"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:  # noqa: A002
        """Let a sample start once it has a place, or leave it out."""
        holder = (self.task, str(id), epoch)
        try:
            await self.places.acquire(holder)
            reason = await self.tokens.stop_reason()
            if reason is None or await self.is_free(str(id), epoch):
                return None
        except asyncio.CancelledError:
            self.tokens.interrupted = True
            raise
        from inspect_ai.util import EarlyStop  # noqa: PLC0415 -- tuning does without Inspect

        self.places.release(holder)
        self.tokens.skipped += 1
        return EarlyStop(id=id, epoch=epoch, reason=reason)

    @contextmanager
    def place(self, question: str, epoch: int) -> Iterator[None]:
        """Keep the place of a sample, and give it back at the end."""
        try:
            yield
        except asyncio.CancelledError:
            self.tokens.interrupted = True
            raise
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
        """Return the tokens that had been spent when the task ended."""
        return {"completion_tokens_spent": self.tokens.spent, "limit": self.tokens.most}
