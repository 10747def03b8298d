"""Short texts: `match` compares the end of an answer, `choice` the letter that it states."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

from optim.scorers.mathematics import UNSPACED, one_script, unwrapped
from optim.scorers.scorer import Score, register
from pb_graph.answers import boxed_answer, last_answer, unmarked, without_thinking

if TYPE_CHECKING:
    from optim.datasets import Question

_STATED = re.compile(
    r"\b(?:answer|option|choice|respuesta|réponse|antwort|ответ)"
    r"(?:\s+(?:is|es|est|ist)\b:?|:)[ \t*]*(.*)",
    re.IGNORECASE,
)
_LETTER = re.compile(  # "B", "(B)", "[B]. Paris", "B, since …", but not "B, C" or "A city"
    r"(?:(?:option|choice)\s+)?[(\[<{*\"']*(?P<letter>[A-Za-z])(?![A-Za-z])"
    r"(?P<end>[)\]>}*\"'.:,;]*)\s*(?P<rest>.*)",
    re.DOTALL | re.IGNORECASE,
)
_LONGER = re.compile(
    r"(?:\d[.,\s]\s*|[-\u2010-\u2015/:^*+<>√]\s*|[<>]=\s*|\\[a-z]+\s*)$"
)  # 3 1/2, 2^5, ≥ 5
_OTHERWISE = re.compile(r"(?:\b(?:not|never|nor|or)|n['\u2019]t)\s+(?:the\s+|an?\s+)?$")
_REASON = re.compile(r"(?:because|since|as|for|so)\b", re.IGNORECASE)
_OTHER = re.compile(  # a second letter
    r"(?:and|or|&|/)?\s*[(\[<{*]*[A-Z](?![A-Za-z'])|.*\b(?-i:[A-Z])[):]", re.IGNORECASE | re.DOTALL
)


@register("match")
def match(output: str, question: Question) -> Score:
    """Return 1 if the answer ends with a target as a whole word or number, else 0.

    Letter case, punctuation and marks do not count. ``inspect_ai.scorer.match()`` also takes 72
    for 2 and "casino" for "no".
    """
    said = _bare(without_thinking(output))
    is_right = any(
        _ends_with(said, target) for target in filter(None, map(_bare, question.targets))
    )
    expected = " or ".join(question.targets)
    return Score(float(is_right), said or None, f"the end of the answer, against {expected}")


def _bare(text: str) -> str:
    """Return a text in lower case without marks and punctuation around it."""
    marks = (
        string.whitespace
        + re.sub(r"[-<>=+/^\\]", "", string.punctuation)
        + "\N{IDEOGRAPHIC FULL STOP}"
    )
    return unwrapped(one_script(text)).casefold().strip(marks)


def _ends_with(text: str, end: str) -> bool:
    """Return whether a text ends with a word or number that does not begin earlier."""
    before = text.removesuffix(end)
    if before == text or not before:
        return text == end
    if _OTHERWISE.search(before) or (end[0].isdigit() and _LONGER.search(before)):
        return False
    is_inside = before[-1].isalnum() and end[0].isalnum()
    return not is_inside or UNSPACED.match(before[-1]) is not None


@register("choice")
def choice(output: str, question: Question) -> Score:
    """Return 1 if the answer states the letter of the right choice, else 0."""
    letter = stated_letter(output)
    expected = " or ".join(question.targets)
    return Score(float(letter in question.targets), letter, f"the letter, against {expected}")


def stated_letter(output: str) -> str | None:
    """Return the letter in the box of an output, after its "Answer:", or after "answer is"."""
    visible = without_thinking(output)
    answers = [boxed_answer(visible), last_answer(visible)]
    for answer in [*answers, *_STATED.findall(visible)[-1:], visible]:
        found = _LETTER.fullmatch(unmarked(unwrapped(one_script(answer or "")).strip()))
        if found is None or _OTHER.match(found["rest"]):
            continue
        is_closed = re.search(r"[)\].:,;]", found["end"]) or _REASON.match(found["rest"])
        if not found["rest"] or (is_closed and found["letter"].isupper()):
            return found["letter"].upper()
    return None
