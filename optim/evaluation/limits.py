"""The limits of an evaluation over all its methods: answers at once, and completion tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inspect_ai.util import EarlyStop

if TYPE_CHECKING:
    from pydantic import JsonValue

    from optim.evaluation.store import ReplyCache

    TotalSpent = Callable[[int], Awaitable[int]]


class Limits:
    """The places for answers at once, first come, first served, and the tokens of a run.

    Args:
        places: Number of questions that are answered at once.
        tokens: Completion tokens after which no new answer begins. None for no limit.
        cache: Counts the tokens, those of earlier runs included.
        total_spent: Takes the tokens of this part and returns those of all parts.

    Attributes:
        skipped: Number of answers that were not begun.
        interrupted: Whether a sample was cancelled.
    """

    def __init__(
        self,
        places: int,
        tokens: int | None,
        cache: ReplyCache,
        total_spent: TotalSpent | None = None,
    ) -> None:
        self.tokens = tokens
        self.skipped = 0
        self.interrupted = False
        self._cache, self._total_spent = cache, total_spent
        self._semaphore = asyncio.Semaphore(places)
        self._holders: set[object] = set()

    @property
    def spent(self) -> int:
        """Completion tokens so far."""
        return self._cache.spent

    async def acquire(self, holder: object) -> None:
        """Wait for a place."""
        await self._semaphore.acquire()
        self._holders.add(holder)

    def release(self, holder: object) -> None:
        """Give the place back. A holder without a place changes nothing."""
        if holder in self._holders:
            self._holders.remove(holder)
            self._semaphore.release()

    async def stop_reason(self) -> str | None:
        """Return the reason why no new answer may begin, or None."""
        if self._cache.failure is not None:
            return str(self._cache.failure)
        if self.tokens is None:
            return None
        spent = self.spent if self._total_spent is None else await self._total_spent(self.spent)
        return f"{self.tokens} tokens are spent" if spent >= self.tokens else None


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Inspect's early-stopping hook of one task, called before each sample starts.

    Samples wait for their place here and not in the solver, because a sample that has started can
    no longer be left out of the log. Once the limit is reached, only samples that cost nothing
    start.

    Attributes:
        is_free: Returns whether the sample of a question and epoch would cost nothing.
    """

    task: tuple[str, ...]
    limits: Limits
    is_free: Callable[[str, int], Awaitable[bool]]

    async def start_task(self, *_: object, **__: object) -> str:
        """Return the name that logs show."""
        return "max-tokens-total"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:  # noqa: A002
        """Let a sample start once it has a place, or leave it out."""
        holder = (self.task, str(id), epoch)
        with self._watched():
            await self.limits.acquire(holder)
            reason = await self.limits.stop_reason()
            if reason is None or await self.is_free(str(id), epoch):
                return None
        self.limits.release(holder)
        self.limits.skipped += 1
        return EarlyStop(id=id, epoch=epoch, reason=reason)

    @contextmanager
    def place(self, question: str, epoch: int) -> Iterator[None]:
        """Keep the place of a sample, and give it back at the end."""
        try:
            with self._watched():
                yield
        finally:
            self.limits.release((self.task, question, epoch))

    async def complete_sample(self, id: str | int, epoch: int, scores: object) -> None:  # noqa: A002, ARG002
        """Give back the place of a sample that never came to its solver."""
        self.limits.release((self.task, str(id), epoch))

    async def complete_task(self) -> dict[str, JsonValue]:
        """Return the tokens that had been spent when the task ended."""
        return {"completion_tokens_spent": self.limits.spent, "limit": self.limits.tokens}

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            self.limits.interrupted = True
            raise
