"""One event loop on a thread of its own, for callers on any thread.

Answers share locks and connections, which belong to one loop; optimizers call from many threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["Background"]

T = TypeVar("T")


class Background:
    """Runs coroutines for callers that wait; started on first use, ended by `close`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run until it is done. An interrupt while waiting cancels the work."""
        try:
            waiting: Future[T] = asyncio.run_coroutine_threadsafe(work, self._started())
        except RuntimeError:
            work.close()
            raise
        try:
            return waiting.result()
        except BaseException:
            waiting.cancel()
            raise

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                msg = "it has been closed"
                raise RuntimeError(msg)
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="pb-optim-tune", daemon=True
                )
                self._thread.start()
            return self._loop


async def _cancel_all() -> None:
    own = asyncio.current_task()
    running = [task for task in asyncio.all_tasks() if task is not own]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
