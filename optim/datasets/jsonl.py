"""Any file of questions and answers; a field map names its columns.

The columns of a row, of which only the first two must be there:

- ``question``: what is asked.
- ``answer``, or ``answers``, a list: what is accepted, as text or numbers. Of a question with
  choices it is the letter of the right one: "B".
- ``choices``: a list of texts, shown below the question as A), B) and so on; for the scorer
  "choice".
- ``id``: unique in the file; made of the question's text where it is missing.
- ``level``: difficulty from 1 (easiest) to 5.
- ``reference``: material that is needed to answer.
- ``instruction``: what kind of task it is.
- ``answer_format``: how the answer must be given.
- ``domain``: the field, such as "law".
"""

from __future__ import annotations

from dataclasses import replace
from string import ascii_uppercase

from optim.datasets.dataset import Question, Row, content_id, dataset
from pb_graph.errors import InputError

_LETTER = r"Close with the letter of your choice alone inside the braces of one \boxed command."


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
        *("question", "answer", "answers", "choices", "id", "level", "reference"),
        *("instruction", "answer_format", "domain"),
    ),
)
def parse(row: Row) -> Question:
    """Read one row: question and answer (or a list of answers); everything else when present.

    Columns that are not part of a `Question` are left out.

    Raises:
        InputError: A missing question or answer, a level outside 1 to 5, choices that are no list
            of texts, or an answer that is the letter of none.
    """
    question = row.text("question")
    read = Question(
        id=row.optional_text("id") or content_id("q", question),
        question=question,
        level=row.level(),
        targets=row.targets("answers", "answer"),
        reference=row.optional_text("reference"),
        instruction=row.optional_text("instruction") or "",
        answer_format=row.optional_text("answer_format") or "",
        domain=row.optional_text("domain") or "",
    )
    return _with_choices(read, row) if row.get("choices") else read


def _with_choices(question: Question, row: Row) -> Question:
    given, letters = row.as_list("choices"), ascii_uppercase
    if not isinstance(given, list | tuple) or not 1 < len(given) <= len(letters):
        msg = f"'choices' is a list of 2 to {len(letters)} texts"
        raise InputError(msg)
    choices = [Row(choices=choice).text("choices") for choice in given]
    letters = letters[: len(choices)]
    if not {target.upper() for target in question.targets} <= set(letters):
        msg = f"the answer of a question with choices is a letter from A to {letters[-1]}"
        raise InputError(msg)
    listed = "\n".join(f"{a}) {choice}" for a, choice in zip(letters, choices, strict=True))
    return replace(
        question,
        question=f"{question.question}\n\n{listed}",
        targets=tuple(target.upper() for target in question.targets),
        answer_format=question.answer_format or _LETTER,
        metadata={"choices": choices},
    )
