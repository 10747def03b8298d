"""Who may start: so many samples at once over all tasks, and none once the money is spent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inspect_ai.util import EarlyStop

if TYPE_CHECKING:
    from inspect_ai.dataset import Sample
    from inspect_ai.log import EvalSpec
    from inspect_ai.scorer import SampleScore
    from pydantic import JsonValue

__all__ = ["Gate", "Purse", "Slots"]


class Purse:
    """Counts the completion tokens really spent, against a limit if there is one.

    Args:
        limit: Tokens after which no new sample starts; those running are let finish.
        spent: Tokens that earlier runs have spent.
    """

    def __init__(self, limit: int | None = None, spent: int = 0) -> None:
        self.limit = limit
        self.spent = spent
        self.refused = 0

    def pay(self, tokens: int) -> None:
        """Count the tokens of one call."""
        self.spent += tokens

    @property
    def empty(self) -> bool:
        """Whether nothing more may start."""
        return self.limit is not None and self.spent >= self.limit


class Slots:
    """So many at once, first come, first served; shared by all tasks."""

    def __init__(self, number: int) -> None:
        self._semaphore = asyncio.Semaphore(number)
        self._held: set[object] = set()

    async def take(self, holder: object) -> None:
        """Wait for a slot."""
        await self._semaphore.acquire()
        self._held.add(holder)

    def give(self, holder: object) -> None:
        """Give the slot back; harmless when it is not held."""
        if holder in self._held:
            self._held.remove(holder)
            self._semaphore.release()


class Gate:
    """Inspect's early-stopping hook of one task: asked before each sample starts.

    A sample that is not to be paid for passes at once. The others wait for a slot here and not in
    the solver, because a sample that has started can no longer be left out of the log; so the
    limit of what may be spent is looked at when it matters.

    Args:
        task: Name of the task.
        slots: Shared by all tasks.
        purse: Shared by all tasks.
        is_free: Whether the sample of this id and epoch costs nothing.
    """

    def __init__(
        self, task: str, slots: Slots, purse: Purse, is_free: Callable[[str, int], bool]
    ) -> None:
        self._task = task
        self._slots = slots
        self._purse = purse
        self._is_free = is_free

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
        if self._is_free(str(id), epoch):
            return None
        holder = (self._task, str(id), epoch)
        await self._slots.take(holder)
        if not self._purse.empty:
            return None
        self._slots.give(holder)
        self._purse.refused += 1
        return EarlyStop(id=id, epoch=epoch, reason=f"{self._purse.limit} tokens are spent")

    @contextmanager
    def held(self, question: str, epoch: int) -> Iterator[None]:
        """Keep the slot that the sample was given, and give it back at the end."""
        try:
            yield
        finally:
            self._slots.give((self._task, question, epoch))

    async def complete_sample(
        self,
        id: str | int,  # noqa: A002
        epoch: int,
        scores: dict[str, SampleScore],  # noqa: ARG002
    ) -> None:
        """Give back the slot of a sample that never came to its solver."""
        self._slots.give((self._task, str(id), epoch))

    async def complete_task(self) -> dict[str, JsonValue]:
        """Note what had been spent when the task ended."""
        return {"completion_tokens_spent": self._purse.spent, "limit": self._purse.limit}
