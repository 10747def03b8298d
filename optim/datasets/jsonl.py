"""Any file of questions and answers; a field map names its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.datasets.columns import answers, content_id, level, optional_text, text
from optim.datasets.question import Question
from optim.datasets.spec import DataSet

if TYPE_CHECKING:
    from optim.datasets.spec import Row

__all__ = ["DATASET", "parse"]

_DOMAIN = "general"
_INSTRUCTION = "Answer the question."
_ANSWER_FORMAT = (
    r"Close with the answer alone inside the braces of one \boxed command, as short as it can be."
)
_OWN = ("id", "question", "answer", "answers", "level", "reference")
_TOLD = ("instruction", "answer_format", "domain")


def parse(row: Row) -> Question:
    """Read one row: question and answer (or a list of answers); everything else when present.

    Columns that are not part of a `Question` are left out.

    Raises:
        InputError: A missing question or answer, or a level outside 1 to 5.
    """
    question = text(row, "question")
    return Question(
        id=optional_text(row, "id") or content_id("q", question),
        question=question,
        level=level(row),
        targets=answers(row, ("answers", "answer")),
        reference=optional_text(row, "reference"),
        instruction=optional_text(row, "instruction") or _INSTRUCTION,
        answer_format=optional_text(row, "answer_format") or _ANSWER_FORMAT,
        domain=optional_text(row, "domain") or _DOMAIN,
    )


DATASET = DataSet(
    name="jsonl",
    domain=_DOMAIN,
    instruction=_INSTRUCTION,
    answer_format=_ANSWER_FORMAT,
    scorer="rouge",  # makes no assumption about the answers; "math" suits numbers and expressions
    columns=_OWN + _TOLD,
    parse=parse,
)
