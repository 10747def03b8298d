"""A time-out for a synchronous call that has none."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def within_deadline(call: Callable[[], T], seconds: float) -> T:
    """Make a call in a thread of its own, and wait no longer than ``seconds`` for it.

    Python cannot stop a thread: a call that is given up runs on in the background until it ends by
    itself, and may still be paid for. Its thread does not keep the process alive. The call sees
    the caller's context variables (LangChain's callbacks are there), but not its thread-locals.

    Raises:
        TimeoutError: It took longer.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 -- raised where the result is awaited
            outcome.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True, name="model-call").start()
    return outcome.result(seconds)
