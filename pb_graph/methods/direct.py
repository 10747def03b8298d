"""Direct answering: nothing is asked for but the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.methods.registry import Asked, method
from pb_graph.prompts import whole_question

if TYPE_CHECKING:
    from pb_graph.prompts import Turn

STYLE = "Do not reason, explain or repeat anything: write nothing but the answer, at once."


@method("direct", "Is told to answer without working.", source="arXiv:2409.12183")
def direct(asked: Asked) -> list[Turn]:
    """No chain of thought, which pays in mathematics and logic, and hardly in other tasks."""
    return whole_question(asked.query, asked.settings, way=STYLE)
