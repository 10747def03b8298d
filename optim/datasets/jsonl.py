"""Any file of questions and answers; a field map names its columns."""

from __future__ import annotations

from optim.datasets.dataset import (
    Question,
    Row,
    answers,
    content_id,
    dataset,
    level,
    optional_text,
    text,
)


@dataset(
    "jsonl",
    domain="general",
    instruction="Answer the question.",
    answer_format=(
        r"Close with the answer alone inside the braces of one \boxed command, as short as it can "
        "be."
    ),
    scorer="rouge",  # makes no assumption about the answers; "math" suits numbers and expressions
    columns=(
        *("id", "question", "answer", "answers", "level", "reference"),
        *("instruction", "answer_format", "domain"),
    ),
)
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
        instruction=optional_text(row, "instruction") or "",
        answer_format=optional_text(row, "answer_format") or "",
        domain=optional_text(row, "domain") or "",
    )
