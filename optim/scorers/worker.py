"""Compare formulas by Math-Verify in a process with limits on CPU time and memory.

Math-Verify's own timeout needs the main thread, and does not stop sympy. loky starts the process
without running the caller's ``__main__`` again, which may be an unguarded, paid evaluation.
"""

from __future__ import annotations

import atexit
import gc
import logging
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.scorers.scorer import ScorerError

if TYPE_CHECKING:
    from loky import ProcessPoolExecutor

_TIME_LIMIT = 5.0  # seconds of CPU time; a sound comparison takes milliseconds
_MEMORY_LIMIT = 4 * 2**30  # bytes of address space: 10^(10^10) must not take the machine down
_IDLE = 600  # seconds after which an unused worker ends
_CLOSE = 2e-6  # relative difference of two equal numbers, such as 1/3 and 0.333333


class Compared(NamedTuple):
    """The result of a comparison."""

    is_equal: bool
    error: str | None = None  # the reason why they could not be compared


class Worker:
    """Compares answers in one process, which starts with the first comparison.

    loky's reusable executor is no help here: every thread has its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # the comparison that kills the process fails alone
        self._pool: ProcessPoolExecutor | None = None

    def read(self, text: str) -> str | None:
        """Return the expression that Math-Verify finds in prose, or None."""
        found = self._call(_found, text)
        return found if isinstance(found, str) else None

    def compare(self, golds: Sequence[str], readings: Sequence[str]) -> Compared:
        """Compare the readings of an answer with those of its references.

        Args:
            golds: Formulas in LaTeX, as are the readings; each is tried with each.
            readings: What the answer may mean.
        """
        compared: Compared = self._call(_compared, golds, readings)
        return compared

    def _call(self, function: Any, *arguments: object) -> Any:  # noqa: ANN401
        from loky import ProcessPoolExecutor  # noqa: PLC0415 -- of an extra

        with self._lock:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, timeout=_IDLE, initializer=_set_up)
            try:
                return self._pool.submit(_in_time, _TIME_LIMIT, function, *arguments).result()
            except BrokenExecutor as error:
                self.stop()
                if "SIGPROF" in str(error):
                    reason = f"comparing took longer than {_TIME_LIMIT:g} s of CPU time"
                    return Compared(is_equal=False, error=reason)
                msg = f"the process that compares answers ended: {error}"
                raise ScorerError(msg) from error
            except BaseException:  # Ctrl-C: the next comparison must not wait for this one
                self.stop()
                raise

    def stop(self) -> None:
        """Kill the process, if there is one."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, kill_workers=True)
            del pool
            gc.collect()  # its semaphores end with it


WORKER = Worker()
atexit.register(WORKER.stop)


def _set_up() -> None:
    """Prepare the worker: limit its memory, and load Math-Verify before any clock runs."""
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    with suppress(ImportError):  # POSIX only
        import resource  # noqa: PLC0415 -- absent on Windows

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT, _MEMORY_LIMIT))
    import math_verify  # type: ignore[import-untyped]  # noqa: F401, PLC0415


def _in_time(seconds: float, function: Any, *arguments: object) -> Any:  # noqa: ANN401
    """Call a function in the worker, which SIGPROF kills after a number of seconds of CPU time."""
    with suppress(AttributeError):  # absent on Windows
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 -- sympy raises anything at all on odd input
        return Compared(is_equal=False, error=f"{type(error).__name__}: {error}"[:500])
    finally:
        with suppress(AttributeError):
            signal.setitimer(signal.ITIMER_PROF, 0)


@cache
def _reader() -> Callable[[str], list[Any]]:
    """Return Math-Verify's reader of formulas and numbers, which drops no word as a unit."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse  # noqa: PLC0415

    latex = LatexExtractionConfig()
    config = replace(latex.normalization_config, units=False)
    kinds = [replace(latex, normalization_config=config), ExprExtractionConfig()]
    # Without Math-Verify's own clock, which needs the main thread.
    return partial(parse, extraction_config=kinds, parsing_timeout=None)


def _found(text: str) -> str | None:
    return next((part for part in reversed(_reader()(text)) if isinstance(part, str)), None)


def _compared(golds: Sequence[str], readings: Sequence[str]) -> Compared:
    """Compare as ``verify(gold, prediction)``."""
    from math_verify import verify  # noqa: PLC0415 -- slow, and only in the worker

    targets, parts = (
        [part for text in texts for part in _reader()(f"${text}$")] for texts in (golds, readings)
    )
    return Compared(
        any(
            verify(gold, part, timeout_seconds=None, allow_set_relation_comp=True)
            and not _is_far(gold, part)
            for gold in targets
            for part in parts
        )
    )


def _is_far(gold: Any, part: Any) -> bool:  # noqa: ANN401 -- sympy has no types
    """Return whether equal values differ after all: Math-Verify rounds to six places."""
    golds, parts = _values(gold), _values(part)
    is_same_count = len(golds) == len(parts)
    return is_same_count and not all(
        any(
            abs(a - b) <= _CLOSE * max(abs(a), abs(b))
            for a, b in ((x, y), (100 * x, y), (x, 100 * y))
        )
        for x, y in zip(golds, parts, strict=True)
    )  # 15 % is 15 and 0.15


def _values(value: Any) -> list[Any]:  # noqa: ANN401
    """Return the numbers of a formula, list or assignment in order, with 7/3 for each letter."""
    import sympy  # type: ignore[import-untyped]  # noqa: PLC0415 -- slow, and only in the worker

    if getattr(value, "is_Relational", False) and value.lhs.is_Symbol:
        value = value.rhs
    parts = [value]
    if isinstance(value, sympy.FiniteSet | sympy.Tuple | sympy.Interval):
        parts = value.args[:2] if isinstance(value, sympy.Interval) else value.args
    numbers = []
    for part in parts:
        if not isinstance(part, sympy.Expr) or part.is_Symbol:
            return []
        letters = dict.fromkeys(part.free_symbols, sympy.Rational(7, 3))
        numbers.append(part.subs(letters).doit().evalf(20))
    is_finite = all(number.is_number and number.is_finite for number in numbers)
    return sorted(numbers, key=sympy.default_sort_key) if is_finite else []
