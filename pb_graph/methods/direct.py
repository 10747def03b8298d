"""Direct answering: nothing is asked for but the answer."""

from __future__ import annotations

from pb_graph.methods.registry import Asked, method
from pb_graph.prompts import Turn, whole_question

LAST = "Do not reason, explain or repeat anything: write that at once, and nothing else."


@method("direct", "Is told to answer without working.", source="arXiv:2409.12183")
def direct(asked: Asked) -> list[Turn]:
    """No chain of thought, which pays in mathematics and logic, and less in other tasks.

    It is said after the answer's format: said before, small models answer twice, once in that form.
    """
    return whole_question(asked.query, asked.settings, way="", last=LAST)
