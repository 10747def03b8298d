"""Methods that sample answers and stop, or think longer, by whether these agree."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from math import comb
from typing import TYPE_CHECKING

from optim.scorers.mathematics import unwrapped
from pb_graph.answers import stated_answer
from pb_graph.errors import ModelCallError
from pb_graph.methods import method
from pb_graph.prompts import MethodInput, single_call_prompt
from pb_graph.styles import STYLES
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from pb_graph.run.run import Run
    from pb_graph.state import State

SAMPLES = 40
"""The most answers that are sampled, as in the paper."""
CONFIDENCE = 0.95
"""The confidence in the leading answer at which sampling stops, as in the paper."""

_NOISE = re.compile(
    r"\\[!,;:()\[\] ]|\\(?:left|right|displaystyle)(?![a-zA-Z])|\\?\$|\s|(?<=\d)\{,\}(?=\d)"
)
_NUMBER = re.compile(r"[-+]?(?:(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?|\.\d+)")


@method(
    "adaptive_consistency",
    "Samples answers until the most frequent one is sure enough to stay so, and gives that.",
    source="arXiv:2305.11860",
    limit=lambda settings, _: SAMPLES * settings.cutoff,
)
async def adaptive_consistency(given: MethodInput, run: Run) -> State:
    """Make at most `SAMPLES` calls, one after another, and return what most of them state.

    A sample without a result has no vote. If the answer format names no place for the result,
    answers agree if their last paragraphs are equal.
    """
    from pb_graph.models.options import CallOptions  # noqa: PLC0415 -- loads LangChain

    settings, purpose = run.settings, Purpose("answer", level=given.query["level"])
    prompt = single_call_prompt(replace(given, style=STYLES["prose"], budget=None))
    options = CallOptions(settings.cutoff, purpose=purpose, thinking="free", sampling=True)
    texts: dict[str, str] = {}
    votes: Counter[str] = Counter()
    last = ""
    for number in range(1, SAMPLES + 1):
        try:
            reply = await run.ask(prompt, options)
        except ModelCallError as failure:
            if number == 1:
                raise
            run.warn(failure.code, f"sample {number} failed. {failure}")
            break
        last = reply.text or last
        if result := _stated(reply.text, given):
            votes[comparable(result)] += 1
            texts.setdefault(comparable(result), reply.text)
        first, second = [*(count for _, count in votes.most_common(2)), 0, 0][:2]
        if majority_is_stable(first, second) >= CONFIDENCE:
            break
    answer = texts[votes.most_common(1)[0][0]] if votes else last
    return {"answer": answer}


@method(
    "agree_or_think",
    "Samples two concise answers, and reasons at length only if they differ.",
    source="ZEN, zen-router on PyPI",
    limit=lambda settings, _: 3 * settings.cutoff,
)
async def agree_or_think(given: MethodInput, run: Run) -> State:
    """Make two calls, and a third one if the results of the first two differ or are missing."""
    from pb_graph.models.options import CallOptions  # noqa: PLC0415 -- loads LangChain

    settings, purpose = run.settings, Purpose("answer", level=given.query["level"])
    prompt = single_call_prompt(replace(given, style=STYLES["concise"], budget=None))
    options = CallOptions(settings.cutoff, purpose=purpose, thinking="off", sampling=True)
    texts = [(await run.ask(prompt, options)).text for _ in range(2)]
    first, second = [comparable(_stated(text, given) or "") for text in texts]
    if first and first == second:
        return {"answer": texts[0]}
    prompt = single_call_prompt(replace(given, style=STYLES["prose"], budget=None))
    return (await run.call_within_budget(prompt, None, given.query, purpose)).update()


def _stated(text: str, given: MethodInput) -> str | None:
    form = (given.query["answer_format"] or "Final answer:").casefold()
    own = r"\boxed" not in form and "final answer" not in form
    return stated_answer(text) or (text.rpartition("\n\n")[2] if own else None)


def majority_is_stable(first: int, second: int) -> float:
    """Return the probability that the leading answer is more likely than the next one.

    The share x of the leading answer among the two has, from a flat prior, the density
    x^a (1 - x)^b up to a constant, with a and b their counts. The mass above 1/2 is that of a
    binomial of a + b + 1 fair tosses up to a.

    Args:
        first: How often the leading answer was given.
        second: How often the next one was.
    """
    tosses = first + second + 1
    return float(sum(comb(tosses, heads) for heads in range(first + 1)) / 2**tosses)


def comparable(answer: str) -> str:
    """Return an answer in a form in which answers that differ only in notation are equal.

    Spacing, letter case, mathematical delimiters, thousands separators, a full stop at the end and
    zeros after a decimal point do not count. Equal values in other forms (1/2 and 0.5) differ.
    """
    text = unwrapped(answer.strip().rstrip(".").strip("*_`").rstrip("."))
    text = _NOISE.sub("", text).replace(r"\dfrac", r"\frac").replace(r"\tfrac", r"\frac").casefold()
    if not _NUMBER.fullmatch(text):
        return text
    return f"{(Decimal(text.replace(',', '')) + 0).normalize():f}"
