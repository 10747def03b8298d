r"""MATH-500: competition mathematics with one final answer (HuggingFaceH4/MATH-500)."""

from __future__ import annotations

from optim.datasets.dataset import HubSource, Question, Row, content_id, dataset


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
def parse(row: Row) -> Question:
    """Read one row: problem, answer and level; unique_id when present."""
    problem = row.text("problem")
    row.text("level")  # is required
    return Question(
        id=row.optional_text("unique_id") or content_id("math500", problem),
        question=problem,
        level=row.level(),
        targets=(row.text("answer"),),
    )
