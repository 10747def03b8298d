"""Any file of questions and answers; a field map names its columns.

The columns of a row, of which only the first two must be there:

- ``question``: what is asked.
- ``answer``, or ``answers``, a list: what is accepted, as text or numbers. Of a question with
  choices it is the letter of the right one: "B".
- ``choices``: a list of texts, shown below the question as A), B) and so on; for the scorer
  "choice".
- ``id``: unique in the file; by default made from the question, its choices and its reference.
- ``level``: difficulty from 1 (easiest) to 5.
- ``reference``: material that is needed to answer.
- ``instruction``: what kind of task it is.
- ``answer_format``: how the answer must be given.
- ``domain``: the field, such as "law".
"""

from __future__ import annotations

from string import ascii_uppercase

from optim.datasets.dataset import Question, Row, content_id, dataset
from pb_graph.errors import InputError

_LETTER = r"Close with the letter of your choice alone inside the braces of one \boxed command."


@dataset(
    "jsonl",
    domain="",  # that of the settings
    instruction="Answer the question.",
    answer_format=(
        r"Close with the answer alone inside the braces of one \boxed command, as short as it can "
        "be."
    ),
    scorer="rouge",  # makes no assumption about the answers; "math" suits numbers and expressions
)
def parse(row: Row) -> Question:
    """Read one row; columns that are not part of a `Question` are left out."""
    question, targets = row.text("question"), row.targets("answers", "answer")
    fields = {
        name: row.optional_text(name) or "" for name in ("instruction", "answer_format", "domain")
    }
    reference = row.optional_text("reference")
    listed, choices = question, row.get("choices") or []
    if not isinstance(choices, list):
        msg = "'choices' must be a list of texts"
        raise InputError(msg)
    if choices:
        letters = ascii_uppercase[: len(choices)]
        targets = tuple(target.upper() for target in targets)
        if not set(targets) <= set(letters):
            msg = f"the answer of a question with choices is a letter from A to {letters[-1]}"
            raise InputError(msg)
        lines = [f"{letter}) {choice}" for letter, choice in zip(letters, choices, strict=False)]
        listed = "\n".join([f"{question}\n", *lines])
        fields["answer_format"] = fields["answer_format"] or _LETTER
    return Question(
        id=row.optional_text("id") or content_id("q", "\n".join(filter(None, [listed, reference]))),
        question=listed,
        level=row.level(),
        targets=targets,
        reference=reference,
        **fields,
        metadata={"choices": choices} if choices else {},
    )
