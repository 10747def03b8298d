"""Chain of Draft: each step of the reasoning is noted in a few words, as the examples show."""

from __future__ import annotations

from pb_graph.methods.registry import Asked, method
from pb_graph.prompts import Teaching, Turn, after_examples, exchanges

STYLE = (
    "Think step by step, but keep only a minimal draft of each thinking step, five words at most."
)
EXAMPLES = (
    (
        "Tom had 24 marbles. He gave some to Ann and has 15 left. How many did he give away?",
        "24 - x = 15; x = 24 - 15 = 9",
        "9",
    ),
    (
        "A baker fills 6 trays with 12 rolls each and sells 50 rolls. How many rolls are left?",
        "6 * 12 = 72; 72 - 50 = 22",
        "22",
    ),
    (
        "What is the sum of the roots of x^2 - 7x + 10 = 0?",
        "(x - 2)(x - 5) = 0; x = 2, 5; 2 + 5 = 7",
        "7",
    ),
    (
        "If today is Friday, which day of the week will it be in 10 days?",
        "10 = 7 + 3; Friday + 3 = Monday",
        "Monday",
    ),
)
"""Without examples of drafts it is another method: small models ignore the wish alone."""


@method(
    "chain_of_draft",
    "Notes each step of its reasoning in at most five words, after worked examples.",
    source="arXiv:2502.18600",
)
def chain_of_draft(asked: Asked) -> list[Turn]:
    """Drafts for earlier questions, then the question."""
    return after_examples(asked.query, Teaching(STYLE, exchanges(asked.query, EXAMPLES)))
