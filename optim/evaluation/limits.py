"""What a run may use: so many answers at once, and so many tokens or answers in all."""

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

    from optim.evaluation.cache import ReplyCache


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
