"""No thinking: the plain question to a model that is kept from thinking before it answers."""

from __future__ import annotations

from pb_graph.methods.registry import Asked, method
from pb_graph.prompts import Turn, whole_question


@method(
    "thinking_off",
    "Asks the plain question with the model's thinking switched off, where its provider can.",
    source="NoThinking, arXiv:2504.09858",
    thinking="off",
)
def thinking_off(asked: Asked) -> list[Turn]:
    """The prompt of ``vanilla``: for a model that never thinks the two are the same."""
    return whole_question(asked.query, asked.settings)
