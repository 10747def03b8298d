r"""Load 300 word problems, 60 for each level from 1 to 5, from this package.

Problems of a higher level have more steps. From level 4 on, some sentences are irrelevant, and
facts may be out of order. The problems were made by a program, so their answers are right by
construction; they need no download.
"""

from __future__ import annotations

from pathlib import Path

from optim.datasets.dataset import Question, Row, dataset


@dataset(
    "arithmetic",
    domain="arithmetic",
    instruction="Solve this word problem. Its answer is a whole number.",
    answer_format=(
        r"Close with the number alone inside the braces of one \boxed command, without a unit."
    ),
    scorer="math",
    file=Path(__file__).with_suffix(".jsonl"),
)
def parse(row: Row) -> Question:
    """Read one row: id, question, answer and level."""
    return Question(row.text("id"), row.text("question"), row.level(), row.targets("answer"))
