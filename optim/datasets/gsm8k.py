r"""GSM8K: grade-school word problems with a whole-number answer (openai/gsm8k)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from optim.datasets.columns import content_id, level, text
from optim.datasets.question import Question
from optim.datasets.spec import DataSet, HubSource
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.datasets.spec import Row

__all__ = ["DATASET", "parse"]

_DOMAIN = "arithmetic"
_INSTRUCTION = "Solve this word problem. Its answer is a single number."
_ANSWER_FORMAT = (
    r"Close with the number alone inside the braces of one \boxed command: no unit, no currency "
    "sign and no thousands separator."
)
_CALCULATOR = re.compile(r"<<[^<>]*>>")  # the annotations that GSM8K's authors trained with
_NUMBER = re.compile(r"-?(\d+(\.\d+)?|\.\d+)")


def parse(row: Row) -> Question:
    """Read one row: a question, and an answer that ends in ``#### n``.

    Raises:
        InputError: A missing question, or an answer without a number after ``####``.
    """
    question, answer = text(row, "question"), text(row, "answer")
    solution, marker, final = answer.rpartition("####")
    target = final.strip().strip("$").replace(",", "")
    if not marker or not _NUMBER.fullmatch(target):
        msg = "'answer' does not end in '#### ' and a number"
        raise InputError(msg)
    return Question(
        id=content_id("gsm8k", question),
        question=question,
        level=level(row),
        targets=(target,),
        reference=None,
        instruction=_INSTRUCTION,
        answer_format=_ANSWER_FORMAT,
        domain=_DOMAIN,
        metadata={"solution": _CALCULATOR.sub("", solution).strip()},
    )


DATASET = DataSet(
    name="gsm8k",
    domain=_DOMAIN,
    instruction=_INSTRUCTION,
    answer_format=_ANSWER_FORMAT,
    scorer="math",
    columns=("question", "answer", "level"),
    parse=parse,
    hub=HubSource("openai/gsm8k", "main", "test"),
)
