r"""GSM8K: grade-school word problems with a whole-number answer (openai/gsm8k)."""

from __future__ import annotations

import re

from optim.datasets.dataset import HubSource, Question, Row, content_id, dataset
from pb_graph.errors import InputError

_NUMBER = re.compile(r"-?(\d+(\.\d+)?|\.\d+)")


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
def parse(row: Row) -> Question:
    """Read one row: a question, and an answer that ends in ``#### n``."""
    question, answer = row.text("question"), row.text("answer")
    _, marker, final = answer.rpartition("####")
    target = final.strip().strip("$").replace(",", "")
    if not marker or not _NUMBER.fullmatch(target):
        msg = "'answer' does not end in '#### ' and a number"
        raise InputError(msg)
    return Question(
        id=content_id("gsm8k", question), question=question, level=row.level(), targets=(target,)
    )
