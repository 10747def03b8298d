r"""Mathematical problems with one final answer: arithmetic, GSM8K and MATH-500.

The 300 word problems of ``arithmetic``, 60 for each level from 1 to 5, are in this package and need
no download. Problems of a higher level have more steps; from level 4 on, some sentences are
irrelevant, and facts may be out of order. They were made by a program, so their answers are right
by construction.
"""

from __future__ import annotations

import re
from pathlib import Path

from optim.datasets.dataset import HubSource, Question, Row, content_id, dataset
from pb_graph.errors import InputError

_NUMBER = re.compile(r"-?(\d+(\.\d+)?|\.\d+)")


@dataset(
    "arithmetic",
    domain="arithmetic",
    instruction="Solve this word problem. Its answer is a whole number.",
    answer_format=(
        r"Close with the number alone inside the braces of one \boxed command, without a unit."
    ),
    scorer="math",
    file=Path(__file__).with_name("arithmetic.jsonl"),
)
def parse_arithmetic(row: Row) -> Question:
    """Read one row: id, question, answer and level."""
    return Question(row.text("id"), row.text("question"), row.level(), row.targets("answer"))


@dataset(
    "gsm8k",
    domain="arithmetic",
    instruction="Solve this word problem. Its answer is a single number.",
    answer_format=(
        r"Close with the number alone inside the braces of one \boxed command: no unit, no "
        "currency sign and no thousands separator."
    ),
    scorer="math",
    hub=HubSource("openai/gsm8k", "main", "test"),
)
def parse_gsm8k(row: Row) -> Question:
    """Read one row of openai/gsm8k: a question, and an answer that ends in ``#### n``."""
    question, answer = row.text("question"), row.text("answer")
    _, marker, final = answer.rpartition("####")
    target = final.strip().strip("$").replace(",", "")
    if not marker or not _NUMBER.fullmatch(target):
        msg = "'answer' does not end in '#### ' and a number"
        raise InputError(msg)
    return Question(
        id=content_id("gsm8k", question), question=question, level=row.level(), targets=(target,)
    )


@dataset(
    "math500",
    domain="mathematics",
    instruction="Solve this mathematics problem. It has exactly one final answer.",
    # No example inside the braces: small models copy whatever stands there.
    answer_format=(
        "Close with the final answer alone, simplified and in LaTeX, inside the braces of one "
        r"\boxed command. Leave units and explanations outside."
    ),
    scorer="math",
    hub=HubSource("HuggingFaceH4/MATH-500", None, "test"),
)
def parse_math500(row: Row) -> Question:
    """Read one row: problem, answer and level; unique_id when present."""
    problem = row.text("problem")
    row.text("level")  # is required
    return Question(
        id=row.optional_text("unique_id") or content_id("math500", problem),
        question=problem,
        level=row.level(),
        targets=(row.text("answer"),),
    )
