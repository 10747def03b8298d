"""By kind: each question is asked as does best for questions that are written as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pb_graph.methods.brief import brief
from pb_graph.methods.concise import concise
from pb_graph.methods.registry import OURS, Asked, method
from pb_graph.methods.short_steps import short_steps

if TYPE_CHECKING:
    from pb_graph.prompts import Turn
    from pb_graph.state import Query

# As pandoc has it, what stands between dollar signs that are no prices or variables of a shell:
# nothing blank inside of them, and no letter or digit after the second. Else what LaTeX alone
# writes: \( \), \[ \], a command with braces; or a power in digits.
_FORMULA = re.compile(
    r"\$(?=\S)[^$]*(?<=\S)\$(?!\w)|\\\(.+?\\\)|\\\[.+?\\\]|\\[a-zA-Z]+\{|[\w)]\^\{?-?\d",
    re.DOTALL,
)
_NUMBER = re.compile(r"\d+(?:[.,/]\d+)*")
_HOW_MANY = re.compile(r"\bhow (?:many|much|long|far|old|often|fast|tall|high)\b", re.IGNORECASE)
_FIELDS = frozenset({"mathematics", "math", "maths", "arithmetic"})


def kind_of(query: Query) -> Literal["formulas", "words"] | None:
    """How a question of mathematics is written; None for what is none.

    A question of another field is a word problem if it asks how many, and names two numbers.
    """
    question = query["question"]
    if _FORMULA.search(question):
        return "formulas"
    told = len(_NUMBER.findall(question)) > 1 and _HOW_MANY.search(question)
    return "words" if told or query["domain"].strip().casefold() in _FIELDS else None


@method("by_kind", "Asks as short_steps (in words), concise (in formulas) or brief.", source=OURS)
def by_kind(asked: Asked) -> list[Turn]:
    """Word problems as `short_steps`, formulas as `concise`, and all else as `brief`.

    What shortens one kind costs right answers in another: the example of `concise` in word
    problems, an opening that tells how to begin in formulas (docs/measured.md).
    """
    return {"words": short_steps, "formulas": concise, None: brief}[kind_of(asked.query)](asked)
