"""NaturalInstructions: tasks described in words, scored by likeness to reference outputs.

Two shapes are read: rows with id, query, answer or answers, and level (the paper's sample), and
the official task JSON with Definition, Positive Examples and Instances (allenai).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.datasets.columns import answers, content_id, level, optional_text, text
from optim.datasets.question import Question
from optim.datasets.spec import DataSet
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.datasets.spec import Row

__all__ = ["DATASET", "instances", "parse"]

_DOMAIN = "instruction following"
_INSTRUCTION = "Carry out the task that is described, for the input that is given."
# No box: outputs hold braces, code and whole sentences of their own.
_ANSWER_FORMAT = (
    "Close with a paragraph that starts with 'Final answer:' and goes on with the output alone, "
    "in exactly the form that the task asks for."
)
_EXAMPLES_KEPT = 2  # as many positive examples as the official evaluation shows


def parse(row: Row) -> Question:
    """Read one row: query and answer (or a list of answers); id and level when present.

    Raises:
        InputError: A missing query or answer, or a level outside 1 to 5.
    """
    query = text(row, "query")
    return Question(
        id=optional_text(row, "id") or content_id("ni", query),
        question=query,
        level=level(row),
        targets=answers(row, ("answers", "answer")),
        reference=None,
        instruction=_INSTRUCTION,
        answer_format=_ANSWER_FORMAT,
        domain=_DOMAIN,
        metadata=_metadata(row),
    )


def _metadata(row: Row) -> dict[str, Any]:
    metadata = row.get("metadata")  # put there by `instances`; a file's own column may be anything
    return metadata if isinstance(metadata, dict) else {}


def instances(task: Row) -> Iterator[Row]:
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
        yield _instance(item, definition.strip(), metadata)


def _instance(item: Any, definition: str, metadata: dict[str, Any]) -> Row:  # noqa: ANN401 - as read
    if not isinstance(item, dict) or not isinstance(item.get("input"), str):
        return {}  # becomes a bad row that is named by its place
    return {
        "id": item.get("id"),
        "query": f"Instruction: {definition}\nInput: {item['input'].strip()}",
        "answers": item.get("output"),
        "level": item.get("level"),
        "metadata": metadata,
    }


DATASET = DataSet(
    name="natural_instructions",
    domain=_DOMAIN,
    instruction=_INSTRUCTION,
    answer_format=_ANSWER_FORMAT,
    scorer="rouge",
    columns=("id", "query", "answer", "answers", "level"),
    parse=parse,
    expand=instances,
)
