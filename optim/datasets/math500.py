r"""MATH-500: competition mathematics with one final answer (HuggingFaceH4/MATH-500)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.datasets.columns import content_id, level, optional_text, text
from optim.datasets.question import Question
from optim.datasets.spec import DataSet, HubSource

if TYPE_CHECKING:
    from optim.datasets.spec import Row

__all__ = ["DATASET", "parse"]

_DOMAIN = "mathematics"
_INSTRUCTION = "Solve this mathematics problem. It has exactly one final answer."
# No example inside the braces: small models copy whatever stands there.
_ANSWER_FORMAT = (
    "Close with the final answer alone, simplified and in LaTeX, inside the braces of one "
    r"\boxed command. Leave units and explanations outside."
)


def parse(row: Row) -> Question:
    """Read one row: problem, answer and level; solution, subject and unique_id when present.

    Raises:
        InputError: A missing problem, answer or level, or a level outside 1 to 5.
    """
    problem = text(row, "problem")
    return Question(
        id=optional_text(row, "unique_id") or content_id("math500", problem),
        question=problem,
        level=level(row, required=True),
        targets=(text(row, "answer"),),
        reference=None,
        instruction=_INSTRUCTION,
        answer_format=_ANSWER_FORMAT,
        domain=_DOMAIN,
        metadata={name: optional_text(row, name) for name in ("subject", "solution")},
    )


DATASET = DataSet(
    name="math500",
    domain=_DOMAIN,
    instruction=_INSTRUCTION,
    answer_format=_ANSWER_FORMAT,
    scorer="math",
    columns=("problem", "solution", "answer", "subject", "level", "unique_id"),
    parse=parse,
    hub=HubSource("HuggingFaceH4/MATH-500", None, "test"),
)
