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
from typing import TYPE_CHECKING, NamedTuple

from optim.extras import require_modules
from optim.scorers.base import Score, ScorerError, register, without_text_commands
from pb_graph.answers import boxed_answer, final_answer, without_lead, without_thinking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loky import ProcessPoolExecutor

    from optim.datasets import Question

_TIME_LIMIT = 5.0  # seconds of CPU time; a sound comparison takes milliseconds
_MEMORY_LIMIT = 4 * 2**30  # bytes of address space: 10^(10^10) must not take the machine down
_IDLE = 600  # seconds after which an unused worker ends
_LONGEST = 20_000  # characters kept from the end, where the answer stands
_GSM8K_MARK = re.compile(r"####\s*(?=[-+$€£.\d])")
_TEXT_COMMAND = re.compile(r"\\(?:text|mbox)\s*\{[^{}]*\}")
_QUANTITY = re.compile(
    r"(?P<number>-?\d[\d.,/]*(?:\s+\d+/\d+)?)\s+"
    r"(?!(?:and|percent|sin|cos|tan|log|sqrt)\b)"
    r"(?P<unit>(?:[a-z][A-Za-z]{2,}|(?:[ckm]m|ft|in|kg)\s*[/^]).*)",
    re.DOTALL,
)  # a word with a capital may be a month
_BASED = re.compile(r"\$?(\d[0-9A-Za-z]*)_\{?(\d+)\}?\$?")
_FIGURE = re.compile(r"(?<![\^{])\d")  # not the power of a unit
_MIXED = re.compile(r"(?<![\d.,/])(\d+)(?:\\?\s)+(\d+)/(\d+)(?![.,/]?\d)")
# Notations that Math-Verify misreads or ignores.
_REWRITTEN = (
    (_MIXED, r"\1\\frac{\2}{\3}"),  # 3 1/2
    (re.compile(r"(?<=\d)\\,(?=\d{3}(?!\d))"), ""),  # 1\,800
    (re.compile(r"√\s*(\d+|\w|\([^()]*\))"), r"\\sqrt{\1}"),
)
_SYMBOLS = str.maketrans(
    {"~": " ", "∞": r"\infty ", "°": r"^\circ ", "²": "^2", "³": "^3"} | dict.fromkeys("€£¥")
)
_DOLLAR = re.compile(r"(?<!\\)\$")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_WORD = re.compile(r"(?!and\b)[A-Za-z]{3,}")
_SPREAD = (r"\begin", r"\[", "$$")  # what a formula of several lines starts with


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
        text = without_thinking(output)[-_LONGEST:].replace("\N{MINUS SIGN}", "-")
        boxed = boxed_answer(text)
        result = final_answer(text) if boxed is None else boxed
        expected = " or ".join(question.targets)
        if result is not None and _plain(result) in map(_plain, question.targets):
            return Score(1.0, result, f"{result} equals {expected}")
        prediction = _unboxed(result, text) if boxed is None else rf"\boxed{{{_readable(boxed)}}}"
        golds = [_readable(_DOLLAR.sub("", target)) for target in question.targets]
        compared = WORKER.compare(golds, prediction)
        answer = compared.answer if result is None else result
        if compared.error is not None:
            return Score(0.0, answer, f"could not be compared: {compared.error}")
        if answer is None:
            return Score(0.0, None, f"no mathematical answer found; expected {expected}")
        is_right = compared.is_equal and not _has_other_base(answer, question.targets)
        verdict = "equals" if is_right else "differs from"
        return Score(float(is_right), answer, f"{answer} {verdict} {expected}")


def _has_other_base(answer: str, targets: Sequence[str]) -> bool:
    """Return whether a number such as 4210_5 differs from every target; Math-Verify ignores 5."""
    read, *golds = (_BASED.fullmatch(text) for text in (answer, *targets))
    return read is not None and all(gold and gold.groups() != read.groups() for gold in golds)


def _plain(text: str) -> str:
    """Return a text for comparison letter by letter: "east" for "The answer is east."."""
    return "".join(without_lead(without_text_commands(text)).removesuffix(".").split())


def _readable(formula: str) -> str:
    r"""Return a formula for Math-Verify: 18 for "18 dollars" and for `\text{18 dollars}`."""
    if _TEXT_COMMAND.fullmatch(formula) and any(map(str.isdigit, formula)):
        formula = without_text_commands(formula)
    quantity = _QUANTITY.fullmatch(formula)
    if quantity and not _FIGURE.search(quantity["unit"]):
        formula = quantity["number"]
    for written, read in _REWRITTEN:
        formula = written.sub(read, formula)
    return formula.translate(_SYMBOLS)


def _unboxed(result: str | None, text: str) -> str:
    """Return the text that Math-Verify reads where there is no box."""
    if result is not None:
        return _formula(result)
    marks = list(_GSM8K_MARK.finditer(text))
    rest = text[marks[-1].end() :] if marks else text
    return rest if "$" in rest else _MIXED.sub(r"$\1\\frac{\2}{\3}$", rest)


def _formula(result: str) -> str:
    """Return a stated answer between dollar signs, as LaTeX; a sentence stays as it is."""
    line = result if result.startswith(_SPREAD) else result.partition("\n")[0]
    if len(_DOLLAR.findall(line)) % 2:
        line = _DOLLAR.sub("", line)  # a price
    if _DOLLAR.search(line) or r"\(" in line or r"\[" in line:
        return line
    if quantity := _QUANTITY.fullmatch(line):
        return f"${_readable(quantity['number'])}$"
    is_prose = _WORD.search(_COMMAND.sub("", _TEXT_COMMAND.sub("", line)))
    return line if is_prose else f"${_readable(line)}$"


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

    def compare(self, golds: list[str], prediction: str) -> _Compared:
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


def _compare_in_time(seconds: float, golds: list[str], prediction: str) -> _Compared:
    """Compare in the worker, which SIGPROF kills after a number of seconds of CPU time."""
    from math_verify import parse, verify  # noqa: PLC0415 -- slow, and only in the worker

    with suppress(AttributeError):  # absent on Windows
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        # Without Math-Verify's own clock, which needs the main thread.
        parsed = parse(prediction, parsing_timeout=None)
        references = [parse(f"${gold}$", parsing_timeout=None) for gold in golds]
        is_equal = any(verify(gold, parsed, timeout_seconds=None) for gold in references)
        answer = next((part for part in reversed(parsed) if isinstance(part, str)), None)
        return _Compared(is_equal, answer)
    except Exception as error:  # noqa: BLE001 -- sympy raises anything at all on odd input
        reason = f"{type(error).__name__}: {error}"[:500]
        return _Compared(is_equal=False, answer=None, error=reason)
    finally:
        with suppress(AttributeError):
            signal.setitimer(signal.ITIMER_PROF, 0)
