"""NaturalInstructions: tasks described in words, scored by likeness to reference outputs.

Two shapes are read: rows with id, query, answer or answers, and level (the paper's sample, also as
it is published, below "stats"), and the official task JSON with Definition and Instances (allenai).
"""

from __future__ import annotations

from typing import Any

from optim.datasets.dataset import Question, Row, SkipRow, content_id, dataset
from pb_graph.errors import InputError


def instances(task: Row) -> list[dict[str, Any]] | None:
    """Turn an official task into rows; None if the object is none.

    Raises:
        InputError: If the task has no Definition or no Instances, or an instance has no input.
    """
    definition, items = task.get("Definition"), task.get("Instances")
    if definition is None and items is None:
        return None
    if not definition or not items or not isinstance(items, list):
        msg = "an official task needs a 'Definition' and a list of 'Instances'"
        raise InputError(msg)
    text = "\n".join(definition) if isinstance(definition, list) else str(definition)
    rows = []
    for number, item in enumerate(items, start=1):
        if not isinstance(item, dict) or not isinstance(item.get("input"), str):
            msg = f"instance {number} has no text as its 'input': complete it, or take it out"
            raise InputError(msg)
        query = f"Instruction: {text.strip()}\nInput: {item['input'].strip()}"
        rows.append({**item, "query": query, "answers": item.get("output")})
    return rows


@dataset(
    "natural_instructions",
    domain="instruction following",
    instruction="Carry out the task that is described, for the input that is given.",
    # No box: outputs hold braces, code and whole sentences of their own.
    answer_format=(
        "Close with a paragraph that starts with 'Final answer:' and goes on with the output "
        "alone, in exactly the form that the task asks for."
    ),
    scorer="rouge",
    expand=instances,
)
def parse(row: Row) -> Question:
    """Read one row: query and answer (or a list of answers); id and level when present.

    Raises:
        SkipRow: If the reference answer is empty, as for one item in the paper's sample.
        InputError: If the query or the answer is missing, or the level is not from 1 to 5.
    """
    query, value = row.text("query"), row.get("answers") or row.get("answer")
    answers = value if isinstance(value, list) else [value]
    if value is not None and not any(str(answer).strip() for answer in answers):
        msg = "its reference answer is empty"
        raise SkipRow(msg)
    return Question(
        id=row.optional_text("id") or content_id("ni", query),
        question=query,
        level=row.level(),
        targets=row.targets("answers", "answer"),
    )
