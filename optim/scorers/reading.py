r"""Reading a model's output: thinking cut away, `\boxed{}` answers found. Linear in the length."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPEN, _CLOSE = "<think>", "</think>"
_BRACES = re.compile(r"\\boxed\s*\{|\\[\\{}]|[{}]")
_WIDEST_GAP = 40  # characters between two boxes that are one answer
# What may stand between two boxes that are one answer: "$\boxed{1}$ and $\boxed{2}$".
_BETWEEN = re.compile(r"[\s$\\()\[\],;]*(?:(?:text\{)?\s*\b(?:and|or)\b\s*\}?)?[\s$\\()\[\],;]*")


@dataclass(frozen=True)
class Box:
    r"""A closed `\boxed{content}` at `text[start:end]`."""

    start: int
    end: int
    content: str


def without_thinking(output: str) -> str:
    """Cut `<think>…</think>` away, also where one of the two tags is missing.

    Without the closing tag the rest is thinking; without the opening one (some chat templates
    write it into the prompt) everything up to the closing tag is.
    """
    kept, position = [], 0
    while (start := output.find(_OPEN, position)) != -1:
        stop = output.find(_CLOSE, start)
        if stop == -1:
            break
        kept.append(output[position:start])
        position = stop + len(_CLOSE)
    rest = "".join([*kept, output[position:]])
    return rest.rpartition(_CLOSE)[2].partition(_OPEN)[0].strip()


def boxes(text: str) -> list[Box]:
    r"""All closed `\boxed{…}` in order of their start, nested ones included."""
    found: list[Box] = []
    opened: list[re.Match[str]] = []
    for token in _BRACES.finditer(text):
        if token[0].endswith("{") and token[0] != r"\{":
            opened.append(token)
        elif token[0] == "}" and opened:
            start = opened.pop()
            if start[0] != "{":
                found.append(Box(start.start(), token.end(), text[start.end() : token.start()]))
    return sorted(found, key=lambda box: box.start)


def boxed_answer(text: str) -> str | None:
    r"""The content of the last box, or of the last boxes where several stand side by side.

    An answer repeated in a redundant pair of braces, `\boxed{{x}}`, is unwrapped: models copy
    that from prompts written for `str.format`.
    """
    closed = boxes(text)
    if not closed:
        return None
    run = [closed[-1]]
    for box in reversed(closed[:-1]):
        gap = run[-1].start - box.end
        if not 0 <= gap <= _WIDEST_GAP or not _BETWEEN.fullmatch(text, box.end, run[-1].start):
            break
        run.append(box)
    return ", ".join(_bare(box.content) for box in reversed(run))


def _bare(content: str) -> str:
    content = content.strip()
    while content.startswith("{") and _closes_at_end(content):
        content = content[1:-1].strip()
    return content


def _closes_at_end(content: str) -> bool:
    """Whether the brace that opens the text is closed by its last character."""
    depth = 0
    for token in re.finditer(r"\\[\\{}]|[{}]", content):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end() == len(content)
    return False
