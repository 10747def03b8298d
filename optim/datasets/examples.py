"""Turn examples of DSPy into questions, and questions into examples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optim.datasets.dataset import DATASETS, Question, Row
from pb_graph.errors import InputError

if TYPE_CHECKING:
    import dspy

_EXAMPLE = "dspy.Example"  # key in a question's metadata


def question_of(given: Any) -> Question:  # noqa: ANN401 -- a Question or a dspy.Example
    """Return a question, or make one of an example with ``question`` and ``answer(s)``.

    The other columns of a question (id, level, reference, …) are taken where the example has them.

    Raises:
        InputError: If the question or the answer is missing, or the level is not from 1 to 5.
    """
    if isinstance(given, Question):
        return given
    if not hasattr(given, "toDict"):
        msg = f"it is of type {type(given).__name__}, not a dspy.Example or a Question"
        raise InputError(msg)
    question = DATASETS["jsonl"].read(Row(given.toDict()))  # without defaults of a file
    return replace(question, metadata={**question.metadata, _EXAMPLE: given})


def example_of(question: Question) -> dspy.Example:
    """Return a question as an example of plain text, so that prompts can show it."""
    import dspy  # noqa: PLC0415 -- takes a second

    fields = {"question": question.question, "id": question.identity}
    answer = " or ".join(question.targets)
    return dspy.Example(**fields, answer=answer).with_inputs("question", "id")


def known_example(question: Question) -> dspy.Example:
    """Return the example that a question was made of, with all its fields, or a new one."""
    return question.metadata.get(_EXAMPLE) or example_of(question)
