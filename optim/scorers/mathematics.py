r"""Mathematical answers, compared by Math-Verify in a worker process.

Math-Verify's own timeout needs the main thread, and does not stop sympy. So the comparison runs in
a process with limits on CPU time and memory. loky starts it without running the caller's
``__main__`` again, which may be an unguarded, paid evaluation.
"""

from __future__ import annotations

import atexit
import gc
import logging
import re
import signal
import threading
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.extras import require_modules
from optim.scorers.base import Score, ScorerError, register
from optim.scorers.notation import in_prose, one_script, readings, same
from pb_graph.answers import boxed_answer, last_answer, unmarked, without_thinking

if TYPE_CHECKING:
    from loky import ProcessPoolExecutor

    from optim.datasets import Question

_TIME_LIMIT = 5.0  # seconds of CPU time; a sound comparison takes milliseconds
_MEMORY_LIMIT = 4 * 2**30  # bytes of address space: 10^(10^10) must not take the machine down
_IDLE = 600  # seconds after which an unused worker ends
_MAX_LENGTH = 20_000  # characters kept from the end, where the answer stands
_GSM8K_MARK = re.compile(r"####\s*(?=[-+$€£.\d])")
_DOLLAR = re.compile(r"(?<!\\)\$")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_WORD = re.compile(r"(?!and\b)[A-Za-z]{3,}")
_SPREAD = (r"\begin", r"\[", "$$")  # what a formula of several lines starts with
_CLOSE = 2e-6  # relative difference of two equal numbers, such as 1/3 and 0.333333


@register("math")
class MathScorer:
    r"""1 for an answer equal to a reference, 0 for any other. Thinking does not count.

    The last `\boxed{}` is the answer (boxes side by side are read together). Without a box it is
    the last "Final answer:" line. Without that line Math-Verify reads the text, from GSM8K's "####"
    on where there is one: it looks for "the answer is …", then for the last expression or number.
    Equal texts are equal; everything else is compared by Math-Verify, as
    `verify($gold$, prediction)`. Units do not count: "5 oranges" is right for "5 apples", and
    "5 km" for "5 m". A number that states another base than the reference is wrong.

    An answer that takes more than 5 seconds of CPU time to compare, such as a tower of powers, is
    wrong. Waiting does not count, so a busy machine changes no score.

    Several threads may call it; they wait for each other. It blocks, so call it through
    `asyncio.to_thread` from an event loop. All scorers share one worker process, which starts with
    the first comparison and ends at exit.
    """

    def __init__(self) -> None:
        require_modules("math_verify", "loky")

    def score(self, output: str, question: Question) -> Score:
        """Score as `Scorer.score`, against the question's targets."""
        if not question.targets:
            msg = "a question without a target cannot be scored by the math scorer"
            raise ScorerError(msg)
        text = without_thinking(output)[-_MAX_LENGTH:]
        boxed = boxed_answer(text)
        result = last_answer(text) if boxed is None else boxed
        expected = " or ".join(question.targets)
        text = one_script(unmarked(text if result is None else result))
        targets = {target: same(text, target) for target in map(_target, question.targets)}
        if True in targets.values() or None not in targets.values():
            verdict = "equals" if True in targets.values() else "differs from"
            return Score(float(True in targets.values()), result, f"{result} {verdict} {expected}")
        prediction = _prediction(text, is_boxed=boxed is not None, is_stated=result is not None)
        open_ones = [target for target, is_same in targets.items() if is_same is None]
        golds = [gold for target in open_ones for gold in readings(target, is_target=True)]
        compared = WORKER.compare(golds, prediction)
        answer = compared.answer if result is None else result
        if compared.error is not None:
            return Score(0.0, answer, f"could not be compared: {compared.error}")
        if answer is None:
            return Score(0.0, None, f"no mathematical answer found; expected {expected}")
        verdict = "equals" if compared.is_equal else "differs from"
        return Score(float(compared.is_equal), answer, f"{answer} {verdict} {expected}")


def _target(text: str) -> str:
    r"""Return what a target says: 42 for `\boxed{42}`, `$42$`, or GSM8K's "#### 42"."""
    boxed = boxed_answer(text)
    said = _GSM8K_MARK.split(text)[-1] if boxed is None else boxed
    return one_script(_DOLLAR.sub("", said))


def _prediction(text: str, *, is_boxed: bool, is_stated: bool) -> list[str]:
    """Return the formulas to compare, or prose in which Math-Verify looks for one."""
    if is_boxed:
        return [f"${reading}$" for reading in readings(text)]
    if not is_stated:
        marks = list(_GSM8K_MARK.finditer(text))
        text = text[marks[-1].end() :] if marks else re.sub(r"</?[a-z]+>", " ", text)
        return [in_prose(text)]
    line = text if text.startswith(_SPREAD) else text.partition("\n")[0]
    if len(_DOLLAR.findall(line)) % 2:
        line = _DOLLAR.sub("", line)  # a price
    if _DOLLAR.search(line) or r"\(" in line or r"\[" in line:
        return [in_prose(line)]
    read = readings(line)
    is_prose = _WORD.search(_COMMAND.sub("", read[0]))
    return [in_prose(line)] if is_prose else [f"${reading}$" for reading in read]


class _Compared(NamedTuple):
    is_equal: bool
    answer: str | None  # the expression that Math-Verify read out of the prediction
    error: str | None = None  # the reason why they could not be compared


class _Worker:
    """Compares answers in one process, which starts with the first comparison.

    loky's reusable executor is no help here: every thread has its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # the comparison that kills the process fails alone
        self._pool: ProcessPoolExecutor | None = None

    def compare(self, golds: list[str], prediction: list[str]) -> _Compared:
        """Compare a prediction with each reference, as ``verify(gold, prediction)``."""
        from loky import ProcessPoolExecutor  # noqa: PLC0415 -- of an extra

        with self._lock:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, timeout=_IDLE, initializer=_set_up)
            try:
                task = self._pool.submit(_compare_in_time, _TIME_LIMIT, golds, prediction)
                compared: _Compared = task.result()
            except BrokenExecutor as error:
                self.stop()
                if "SIGPROF" in str(error):
                    reason = f"comparing took longer than {_TIME_LIMIT:g} s of CPU time"
                    return _Compared(is_equal=False, answer=None, error=reason)
                msg = f"the process that compares answers ended: {error}"
                raise ScorerError(msg) from error
            except BaseException:  # Ctrl-C: the next comparison must not wait for this one
                self.stop()
                raise
            return compared

    def stop(self) -> None:
        """Kill the process, if there is one."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, kill_workers=True)
            del pool
            gc.collect()  # its semaphores end with it


WORKER = _Worker()
atexit.register(WORKER.stop)


def _set_up() -> None:
    """Prepare the worker: limit its memory, and load Math-Verify before any clock runs."""
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    with suppress(ImportError):  # POSIX only
        import resource  # noqa: PLC0415 -- absent on Windows

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT, _MEMORY_LIMIT))
    import math_verify  # type: ignore[import-untyped]  # noqa: F401, PLC0415


def _compare_in_time(seconds: float, golds: list[str], prediction: list[str]) -> _Compared:
    """Compare in the worker, which SIGPROF kills after a number of seconds of CPU time."""
    from math_verify import parse, verify  # noqa: PLC0415 -- slow, and only in the worker

    with suppress(AttributeError):  # absent on Windows
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        # Without Math-Verify's own clock, which needs the main thread, and without its units.
        read = partial(parse, extraction_config=_extraction(), parsing_timeout=None)
        parsed = [part for text in prediction for part in read(text)]
        answer = next((part for part in reversed(parsed) if isinstance(part, str)), None)
        if answer is not None and not prediction[0].startswith("$"):  # found in prose
            parsed = [part for text in readings(answer) for part in read(f"${text}$")] or parsed
        is_equal = any(
            verify(gold, part, timeout_seconds=None, allow_set_relation_comp=True)
            and not _is_far(gold, part)
            for target in golds
            for gold in read(f"${target}$")
            for part in parsed
        )
        return _Compared(is_equal, answer)
    except Exception as error:  # noqa: BLE001 -- sympy raises anything at all on odd input
        reason = f"{type(error).__name__}: {error}"[:500]
        return _Compared(is_equal=False, answer=None, error=reason)
    finally:
        with suppress(AttributeError):
            signal.setitimer(signal.ITIMER_PROF, 0)


@cache
def _extraction() -> list[Any]:
    """Return Math-Verify's extraction of formulas and numbers, which drops no word as a unit."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig  # noqa: PLC0415

    latex = LatexExtractionConfig()
    config = replace(latex.normalization_config, units=False)
    return [replace(latex, normalization_config=config), ExprExtractionConfig()]


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
