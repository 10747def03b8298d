"""NaturalInstructions: tasks described in words, scored by likeness to reference outputs.

Two shapes are read: rows with id, query, answer or answers, and level (the paper's sample), and
the official task JSON with Definition, Positive Examples and Instances (allenai).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.datasets.dataset import Question, Row, SkipRow, content_id, dataset
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ANSWERS = ("answers", "answer")
_EXAMPLES_KEPT = 2  # as many positive examples as the official evaluation shows


def instances(task: Row) -> Iterator[dict[str, Any]]:
    """Turn an official task into rows: its definition goes before each instance's input.

    Raises:
        InputError: No Definition, or no list of Instances.
    """
    definition, items = task.get("Definition"), task.get("Instances")
    if isinstance(definition, list):
        definition = "\n".join(map(str, definition))
    if not isinstance(definition, str) or not definition.strip() or not isinstance(items, list):
        msg = "an official task needs a 'Definition' and a list of 'Instances'"
        raise InputError(msg)
    metadata = {
        "categories": task.get("Categories", []),
        "positive_examples": list(task.get("Positive Examples") or [])[:_EXAMPLES_KEPT],
    }
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("input"), str):
            yield {}  # becomes a bad row that is named by its place
            continue
        yield {
            "id": item.get("id"),
            "query": f"Instruction: {definition.strip()}\nInput: {item['input'].strip()}",
            "answers": item.get("output"),
            "level": item.get("level"),
            "metadata": metadata,
        }


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
    columns=("id", "query", "answer", "answers", "level"),
    expand=instances,
)
def parse(row: Row) -> Question:
    """Read one row: query and answer (or a list of answers); id and level when present.

    Raises:
        SkipRow: The reference answer is an empty text, as that of one item in the paper's
            sample: nothing is like it.
        InputError: A missing query or answer, or a level outside 1 to 5.
    """
    query = row.text("query")
    given = [row[name] for name in _ANSWERS if row.get(name) is not None]
    if given and all(map(_is_blank, given)):
        msg = "its reference answer is empty"
        raise SkipRow(msg)
    metadata = row.get("metadata")  # put there by `instances`; a file's own column may be anything
    return Question(
        id=row.optional_text("id") or content_id("ni", query),
        question=query,
        level=row.level(),
        targets=row.targets(*_ANSWERS),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def _is_blank(answer: Any) -> bool:  # noqa: ANN401 - whatever a file holds
    if isinstance(answer, list):
        return bool(answer) and all(map(_is_blank, answer))
    return isinstance(answer, str) and not answer.strip()
