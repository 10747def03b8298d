"""The leaves of a run that block or await, as one object: the code above is written once.

A node is a coroutine. With `BlockingIO` everything that it awaits blocks, so that `run_sync` drives
it to its end without an event loop; with `AsyncIO` it awaits.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class IO(ABC):
    """The way in which a run waits for models, tools, checkpointers and budgets."""

    @abstractmethod
    async def call(
        self,
        blocking: Callable[P, T],
        awaitable: Callable[P, Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call the blocking or the awaitable one of two functions that do the same.

        Args:
            blocking: Called in a synchronous run, such as ``model.invoke``.
            awaitable: Called and awaited in an event loop, such as ``model.ainvoke``.
            *args: Arguments of either.
            **kwargs: Keyword arguments of either.
        """

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep
        await self.call(time.sleep, pause, seconds)

    async def load(self, function: Callable[..., T], *args: object) -> T:
        """Call a slow function; in an event loop, in a thread.

        Args:
            function: The function.
            *args: Its arguments.
        """
        return await self.call(function, partial(asyncio.to_thread, function), *args)


class BlockingIO(IO):
    """Blocks. A coroutine that awaits this alone is never suspended."""

    async def call(
        self,
        blocking: Callable[P, T],
        awaitable: Callable[P, Awaitable[T]],  # noqa: ARG002 -- the twin's
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call the blocking function."""
        return blocking(*args, **kwargs)


class AsyncIO(IO):
    """Awaits."""

    async def call(
        self,
        blocking: Callable[P, T],  # noqa: ARG002 -- the twin's
        awaitable: Callable[P, Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call and await the other function."""
        return await awaitable(*args, **kwargs)


_NEEDS_LOOP = (
    "A node or method awaited something that needs an event loop (asyncio) in a synchronous run. "
    "Await only the methods of `run`, or run the graph with ainvoke or astream."
)


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Drive a coroutine that waits by a `BlockingIO`, and return its result.

    Raises:
        RuntimeError: The coroutine awaited something that needs an event loop.
    """
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    except RuntimeError as error:
        if "event loop" in str(error):
            raise RuntimeError(_NEEDS_LOOP) from error
        raise
    work.close()
    raise RuntimeError(_NEEDS_LOOP)
