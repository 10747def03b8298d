"""The one shape that every data set's items take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LEVELS", "Question"]

LEVELS = (1, 2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Question:
    r"""One item to solve and to score.

    Attributes:
        id: Unique within its data set, and the same on every run.
        question: What is asked.
        level: Difficulty from 1 (easiest) to 5, or None where the data set has no label.
        targets: Accepted answers; empty where the scorer checks constraints instead.
        reference: Material that the solver needs beside the question, or None.
        instruction: What kind of task it is, for the solver.
        answer_format: How the solver must give its answer.
        domain: The field, for the planner: "mathematics".
        metadata: The data set's own fields, as plain JSON. May hold the solution, so nothing of
            it belongs into a prompt.

    Raises:
        InputError: An empty id or question, or a level outside 1 to 5.
    """

    id: str
    question: str
    level: int | None
    targets: tuple[str, ...]
    reference: str | None
    instruction: str
    answer_format: str
    domain: str
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.id.strip() or not self.question.strip():
            msg = "a question needs an id and a text"
            raise InputError(msg)
        if self.level is not None and self.level not in LEVELS:
            msg = f"level {self.level!r} is outside 1 to 5"
            raise InputError(msg)
