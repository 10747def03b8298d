r"""Mathematical answers, compared by Math-Verify in a worker process."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from optim.extras import require_modules
from optim.scorers.base import Score, ScorerError, register
from optim.scorers.math_worker import MathWorker
from pb_graph.answers import (
    boxed_answer,
    final_answer,
    without_lead,
    without_text_commands,
    without_thinking,
)

if TYPE_CHECKING:
    from optim.datasets import Question

_TIME_LIMIT = 5.0  # seconds of CPU time; a sound comparison takes milliseconds
_LONGEST = 20_000  # characters kept from the end, where the answer stands
_GSM8K_MARK = re.compile(r"####\s*(?=[-+$€£.\d])")
_TEXT_COMMAND = re.compile(r"\\(?:text|mbox)\s*\{[^{}]*\}")
_QUANTITY = re.compile(
    r"(?P<number>-?\d[\d.,/]*(?:\s+\d+/\d+)?)\s+"
    r"(?!(?:and|percent|sin|cos|tan|log|sqrt)\b)"
    r"(?P<unit>(?:[a-z][A-Za-z]{2,}|(?:[ckm]m|ft|in|kg)\s*[/^]).*)",
    re.DOTALL,
)  # a word with a capital may be a month
_ZEROS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SCALED = re.compile(  # 1.2 million, 1.2\text{ million}
    r"(?<![\d.,/^_])(?P<number>\d[\d,]*(?:\.\d+)?)(?P<between>(?:\s|~|\\[ ,]|\\text\{|\\mbox\{)+)"
    rf"(?P<words>(?:{'|'.join(_ZEROS)})\b(?:\s+(?:{'|'.join(_ZEROS)})\b)*)",
    re.IGNORECASE,
)
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


_WORKER = MathWorker()


@register("math")
class MathScorer:
    r"""1 for an answer equal to a reference, 0 for any other. Thinking does not count.

    The last `\boxed{}` is the answer (boxes side by side are read together). Without a box it is
    the last "Final answer:" line. Without that line Math-Verify reads the text, from GSM8K's "####"
    on where there is one: it looks for "the answer is …", then for the last expression or number.
    Equal texts are equal; everything else is compared by Math-Verify, as
    `verify($gold$, prediction)`. Units do not count: "5 oranges" is right for "5 apples", and
    "5 km" for "5 m". Numbers that both state their base are compared by their value.

    What cannot be compared within the time limit, such as a tower of powers, is wrong.

    Several threads may call it; they wait for each other. It blocks, so call it through
    `asyncio.to_thread` from an event loop. All scorers share one worker process, which starts with
    the first comparison and ends at exit.

    Args:
        time_limit: Seconds of CPU time for one comparison. Waiting does not count, so a busy
            machine changes no score.
    """

    def __init__(self, *, time_limit: float = _TIME_LIMIT) -> None:
        require_modules("math_verify", "loky")
        self._time_limit = time_limit

    def score(self, output: str, question: Question) -> Score:
        """Score an output against the question's targets.

        Raises:
            ScorerError: The question has no target, or the worker process cannot run.
        """
        if not question.targets:
            msg = "a question without a target cannot be scored by the math scorer"
            raise ScorerError(msg)
        text = _SCALED.sub(_in_digits, without_thinking(output)[-_LONGEST:])
        text = text.replace("\N{MINUS SIGN}", "-")
        targets = tuple(_SCALED.sub(_in_digits, target) for target in question.targets)
        boxed = boxed_answer(text)
        metadata = {"boxed": boxed is not None}
        if not text:
            return Score(0.0, None, "the output holds no answer outside its thinking", metadata)
        expected = " or ".join(question.targets)
        stated = boxed if boxed is not None else final_answer(text)
        if stated is not None and _plain(stated) in map(_plain, targets):
            return Score(1.0, stated, f"{stated} equals {expected}", metadata)
        prediction = (
            rf"\boxed{{{_readable(boxed)}}}" if boxed is not None else _unboxed(stated, text)
        )
        golds = [_readable(_DOLLAR.sub("", target)) for target in targets]
        compared = _WORKER.compare(golds, prediction, self._time_limit)
        answer = stated if stated is not None else compared.answer
        if compared.error is not None:
            details = {**metadata, "error": compared.error}
            return Score(0.0, answer, f"could not be compared: {compared.error}", details)
        if answer is None:
            return Score(0.0, None, f"no mathematical answer found; expected {expected}", metadata)
        value, *wanted = map(_in_base, (answer, *targets))
        # Math-Verify ignores bases.
        correct = compared.correct if None in {value, *wanted} else value in wanted
        verdict = "equals" if correct else "differs from"
        return Score(float(correct), answer, f"{answer} {verdict} {expected}", metadata)


def _in_digits(found: re.Match[str]) -> str:
    """Return a number in digits: 1200000 for 1.2 million."""
    zeros = sum(_ZEROS[word] for word in found["words"].lower().split())
    number = found["number"].replace(",", "")
    return f"{Decimal(f'{number}E{zeros}'):f}{found['between']}"


def _in_base(text: str) -> int | str | None:
    """Return the value of a number with a base, such as 4210_5, or None for any other text.

    A number with a digit that its base does not have, such as 4210_3, is returned as it is. A
    coefficient before a letter with an index, such as 3a_2, is no number.
    """
    found = _BASED.fullmatch(text)
    try:
        return found and int(found[1], int(found[2]))
    except ValueError:
        return text if found and found[1].isdecimal() else None


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


def _unboxed(stated: str | None, text: str) -> str:
    """Return the text that Math-Verify reads where there is no box."""
    if stated is not None:
        return _formula(stated)
    marks = list(_GSM8K_MARK.finditer(text))
    rest = text[marks[-1].end() :] if marks else text
    return rest if "$" in rest else _MIXED.sub(r"$\1\\frac{\2}{\3}$", rest)


def _formula(stated: str) -> str:
    """Return a "Final answer:" in dollars, unless it has its own or is a sentence."""
    line = stated if stated.startswith(_SPREAD) else stated.partition("\n")[0]
    if len(_DOLLAR.findall(line)) % 2:
        line = _DOLLAR.sub("", line)  # a price
    if _DOLLAR.search(line) or r"\(" in line or r"\[" in line:
        return line
    if quantity := _QUANTITY.fullmatch(line):
        return f"${_readable(quantity['number'])}$"
    is_prose = _WORD.search(_COMMAND.sub("", _TEXT_COMMAND.sub("", line)))
    return line if is_prose else f"${_readable(line)}$"
