r"""Mathematical answers: Math-Verify, in a process whose computing time is limited."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.extras import require
from optim.scorers.base import Score, ScorerError, register
from optim.scorers.child_process import ChildProcess
from optim.scorers.magnitude import is_beyond_computing, is_larger_than_all
from pb_graph.answers import (
    boxed_answer,
    final_answer,
    without_lead,
    without_text_commands,
    without_thinking,
)

if TYPE_CHECKING:
    from optim.datasets import Question

_PROGRAM = Path(__file__).with_name("math_process.py")
_TIME_LIMIT = 5.0  # seconds of computing; a sound comparison takes milliseconds
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
# What models and people write, and Math-Verify takes for something else or for nothing.
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


@cache
def _process(program: Path, limit: float) -> ChildProcess:
    """The one process that all scorers of this interpreter compare with; it ends at exit."""
    return ChildProcess(program, limit)


@register("math")
class MathScorer:
    r"""1 for an answer equal to a reference, 0 for any other; thinking does not count.

    The last `\boxed{}` is the answer (boxes side by side are read together). Without one it is
    what the last "Final answer:" line says; without that the text, from GSM8K's "####" on where
    there is one, goes to Math-Verify, which looks for "the answer is …", then for the last
    expression or number. Equal texts are equal; everything else is compared by Math-Verify, as
    `verify($gold$, prediction)`. Units do not count: whoever boxes "5 oranges" for "5 apples", or
    "5 km" for "5 m", has the number that was asked for. Numbers that both say their base do, by
    their worth.

    Safe to call from several threads, one comparison at a time. It blocks: call it through
    `asyncio.to_thread` from an event loop. All scorers share one process, which starts with the
    first comparison and ends at exit.

    Args:
        time_limit: Seconds of computing (not of waiting: a busy machine changes no score) for
            one comparison. What takes longer is tried once more and then an error.
        program: What to compare with; for tests.
    """

    def __init__(self, *, time_limit: float = _TIME_LIMIT, program: Path = _PROGRAM) -> None:
        if program == _PROGRAM:  # that needs it, once there are answers to compare
            require("math_verify")
        self._process = _process(program, time_limit)

    def score(self, output: str, question: Question) -> Score:
        """Score an output against the question's targets.

        Raises:
            ScorerError: The question has no target, the comparison takes too much time or memory,
                the answer is too large to be worked out, or the process cannot run.
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
        said = boxed if boxed is not None else final_answer(text)
        if said is not None and _plain(said) in map(_plain, targets):
            return Score(1.0, said, f"{said} equals {expected}", metadata)
        if said is not None and is_larger_than_all(said, targets):
            return Score(0.0, said, f"{said} differs from {expected}", metadata)
        if said is not None and is_beyond_computing(said):
            msg = f"{said[:60]!r} is too large to be worked out"
            raise ScorerError(msg)
        prediction = rf"\boxed{{{_readable(boxed)}}}" if boxed is not None else _unboxed(said, text)
        golds = [_readable(_DOLLAR.sub("", target)) for target in targets]
        reply = self._process.ask({"golds": golds, "prediction": prediction})
        read = said if said is not None else reply["answer"]
        value, *wanted = map(_in_base, (read or "", *targets))
        if None not in {value, *wanted}:  # Math-Verify leaves bases out of account
            reply["correct"] = value in wanted
        return _judge(reply, read, expected, metadata)


def _judge(
    reply: dict[str, Any], read: str | None, expected: str, metadata: dict[str, Any]
) -> Score:
    if memory := reply.get("memory"):
        msg = f"comparing {read!r} takes too much memory: {memory}"
        raise ScorerError(msg)
    if error := reply.get("error"):
        details = {**metadata, "error": error}
        return Score(0.0, read, f"could not be compared: {error}", details)
    if read is None:
        return Score(0.0, None, f"no mathematical answer found; expected {expected}", metadata)
    verdict = "equals" if reply["correct"] else "differs from"
    return Score(float(reply["correct"]), read, f"{read} {verdict} {expected}", metadata)


def _in_digits(found: re.Match[str]) -> str:
    """Such as 1200000 for 1.2 million."""
    zeros = sum(_ZEROS[word] for word in found["words"].lower().split())
    number = found["number"].replace(",", "")
    return f"{Decimal(f'{number}E{zeros}'):f}{found['between']}"


def _in_base(text: str) -> int | str | None:
    """What a number such as 4210_5 is worth; itself if it has digits that its base has not."""
    found = _BASED.fullmatch(text)
    try:
        return found and int(found[1], int(found[2]))
    except ValueError:
        return text


def _plain(text: str) -> str:
    """A text for comparison letter by letter: "The answer is east." is "east"."""
    return "".join(without_lead(without_text_commands(text)).removesuffix(".").split())


def _readable(formula: str) -> str:
    r"""A formula for Math-Verify: "18 dollars" and `\text{18 dollars}` as 18, bare words as is."""
    if _TEXT_COMMAND.fullmatch(formula) and any(map(str.isdigit, formula)):
        formula = without_text_commands(formula)
    quantity = _QUANTITY.fullmatch(formula)
    if quantity and not _FIGURE.search(quantity["unit"]):
        formula = quantity["number"]
    for written, read in _REWRITTEN:
        formula = written.sub(read, formula)
    return formula.translate(_SYMBOLS)


def _unboxed(said: str | None, text: str) -> str:
    """What Math-Verify is to read where there is no box."""
    if said is not None:
        return _formula(said)
    marks = list(_GSM8K_MARK.finditer(text))
    stated = text[marks[-1].end() :] if marks else text
    return stated if "$" in stated else _MIXED.sub(r"$\1\\frac{\2}{\3}$", stated)


def _formula(said: str) -> str:
    """A "Final answer:" in dollars, unless it has its own, or is a sentence with a number in it."""
    line = said if said.startswith(_SPREAD) else said.partition("\n")[0]
    if len(_DOLLAR.findall(line)) % 2:
        line = _DOLLAR.sub("", line)  # a price
    if _DOLLAR.search(line) or r"\(" in line or r"\[" in line:
        return line
    if quantity := _QUANTITY.fullmatch(line):
        return f"${_readable(quantity['number'])}$"
    is_prose = _WORD.search(_COMMAND.sub("", _TEXT_COMMAND.sub("", line)))
    return line if is_prose else f"${_readable(line)}$"
