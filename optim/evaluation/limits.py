"""The limits of an evaluation over all its methods, and its progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from inspect_ai.util import EarlyStop

if TYPE_CHECKING:
    from pydantic import JsonValue
    from rich.console import Console

    from optim.evaluation.store import ReplyCache

    TotalSpent = Callable[[int], Awaitable[int]]

_EVERY = 30.0  # seconds between two lines of progress where nothing can be drawn over
_FIRST = 5  # answers, from which the tokens of all are estimated


class Limits:
    """The places for answers at once, first come, first served, and the tokens of a run.

    Args:
        places: Number of questions that are answered at once.
        tokens: Completion tokens after which no new answer begins. None for no limit.
        cache: Counts the tokens, those of earlier runs included.
        total_spent: Takes the tokens of this part and returns those of all parts.

    Attributes:
        skipped: Number of answers that were not begun.
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
            yield
        finally:
            self.limits.release((self.task, question, epoch))

    async def complete_sample(self, id: str | int, epoch: int, scores: object) -> None:  # noqa: A002, ARG002
        """Give back the place of a sample that never came to its solver."""
        self.limits.release((self.task, str(id), epoch))

    async def complete_task(self) -> dict[str, JsonValue]:
        """Return the tokens that had been spent when the task ended."""
        return {"completion_tokens_spent": self.limits.spent, "limit": self.limits.tokens}


class Progress:
    """A context manager that shows how far a run is: a live line, or at no terminal some lines.

    Args:
        samples: Number of answers of the run.
        spent: Completion tokens before the run.
        limit: Completion tokens after which no answer begins, or None.
        console: The console to draw on.
    """

    def __init__(self, samples: int, spent: int, limit: int | None, console: Console) -> None:
        self._samples, self._before, self._console = samples, spent, console
        self._of = "" if limit is None else f" of {limit}"
        self._began = self._printed = time.monotonic()
        self._status = console.status("")

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def show(self, spent: int, answers: int, errors: int) -> None:
        """Show the counts of the whole run so far, and an estimate of all its tokens.

        Args:
            spent: Completion tokens.
            answers: Answers, errors included.
            errors: Answers without a score.
        """
        now = time.monotonic()
        line = (
            f"{answers} of {self._samples} answers, {errors} errors, {spent} completion tokens "
            f"spent{self._of}, {now - self._began:.0f} s"
        )
        if _FIRST <= answers < self._samples:
            total = self._before + (spent - self._before) * self._samples / answers
            line += f"; about {total:.0f} tokens in all"
        self._status.update(line)
        if not self._console.is_terminal and now - self._printed >= _EVERY:
            self._printed = now
            self._console.print(line)
