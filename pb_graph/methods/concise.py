"""Concise chain of thought: the wish to be brief, and one short example of it."""

from __future__ import annotations

from pb_graph.methods.registry import Asked, method
from pb_graph.prompts import Teaching, Turn, after_examples, exchanges

STYLE = "Think step by step, and be concise."
EXAMPLES = (
    (
        "Pears cost $3 for 4. Mia pays for 20 pears with a $20 note. What change does she get?",
        "20 pears are 20 / 4 = 5 bundles. They cost 5 * 3 = $15. She gets back 20 - 15 = $5.",
        "5",
    ),
)


@method("concise", "Is told to be concise, and shown one short example.", source="arXiv:2401.05618")
def concise(asked: Asked) -> list[Turn]:
    """A wish and an example."""
    return after_examples(asked.query, Teaching(STYLE, exchanges(asked.query, EXAMPLES)))
