"""Math-Verify in a worker process with limits on CPU time and memory.

Math-Verify's own timeout needs the main thread, and sympy hangs in spite of it. loky starts the
worker without running the caller's ``__main__`` again, which may be an unguarded, paid evaluation.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import threading
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.scorers.base import ScorerError

if TYPE_CHECKING:
    from loky import ProcessPoolExecutor

_MEMORY_LIMIT = 4 * 2**30  # bytes of address space: 10^(10^10) must not take the machine down
_IDLE = 600  # seconds after which an unused worker ends
_STUCK_AFTER = 600.0  # seconds that one comparison may take, however busy the machine is
_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing a prediction with its references.

    Attributes:
        correct: Whether the prediction equals one of them.
        answer: The expression that Math-Verify read out of the prediction, or None.
        error: The reason why they could not be compared, or None.
    """

    correct: bool
    answer: str | None
    error: str | None = None


class MathWorker:
    """Compares answers in one worker process, one comparison at a time. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._owner = os.getpid()

    def compare(self, golds: list[str], prediction: str, seconds: float) -> Comparison:
        """Compare a prediction with each reference: ``verify(gold, prediction)``.

        Args:
            golds: References as LaTeX without dollar signs.
            prediction: The text that Math-Verify reads the answer from.
            seconds: CPU time that the comparison may take. Waiting does not count.

        Returns:
            The result. A comparison that takes longer is not correct, and has an `error`.

        Raises:
            ScorerError: The worker could not be started, or died twice for another reason.
        """
        with self._lock:
            for _ in range(_ATTEMPTS):
                try:
                    task = self._running().submit(_compare_within, seconds, golds, prediction)
                    found: Comparison = task.result(timeout=_STUCK_AFTER)
                    return found  # noqa: TRY300 -- as short as it can be
                except BaseException as error:
                    self._stop()  # on Ctrl-C, too: the next comparison must not wait for this one
                    if not isinstance(error, (BrokenExecutor, TimeoutError)):
                        raise
                    if "SIGPROF" in str(error):
                        reason = f"comparing took longer than {seconds:g} s of CPU time"
                        return Comparison(correct=False, answer=None, error=reason)
                    last = error
        msg = (
            f"the worker that compares answers failed {_ATTEMPTS} times on the same answer, which "
            f"is not scored: {last}. Check the memory of this machine."
        )
        raise ScorerError(msg)

    def _running(self) -> ProcessPoolExecutor:
        if self._pool is None or self._owner != os.getpid():  # a forked copy starts its own
            from loky import ProcessPoolExecutor  # noqa: PLC0415 -- of an extra

            atexit.register(self._stop)
            self._owner = os.getpid()
            self._pool = ProcessPoolExecutor(max_workers=1, timeout=_IDLE, initializer=_set_up)
        return self._pool

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, kill_workers=True)
        self._pool = None


def _set_up() -> None:
    """Prepare the worker: limit its memory, and load Math-Verify before any clock runs."""
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    with suppress(ImportError, ValueError, OSError):  # POSIX only
        import resource  # noqa: PLC0415 -- absent on Windows

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT, _MEMORY_LIMIT))
    import math_verify  # type: ignore[import-untyped]  # noqa: F401, PLC0415


def _compare_within(seconds: float, golds: list[str], prediction: str) -> Comparison:
    """Compare in the worker, which SIGPROF kills after so many seconds of CPU time."""
    with suppress(AttributeError):  # absent on Windows
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return _compare(golds, prediction)
    except Exception as error:  # noqa: BLE001 -- sympy raises anything at all on odd input
        reason = f"{type(error).__name__}: {error}"[:500]
        return Comparison(correct=False, answer=None, error=reason)
    finally:
        with suppress(AttributeError):
            signal.setitimer(signal.ITIMER_PROF, 0)


def _compare(golds: list[str], prediction: str) -> Comparison:
    from math_verify import parse, verify  # noqa: PLC0415 -- slow, and only in the worker

    # Without Math-Verify's own clock, which needs the main thread.
    read = parse(prediction, parsing_timeout=None)
    references = [parse(f"${gold}$", parsing_timeout=None) for gold in golds]
    correct = any(verify(gold, read, timeout_seconds=None) for gold in references)
    answer = next((part for part in reversed(read) if isinstance(part, str)), None)
    return Comparison(correct, answer)
