"""Brief: the question as it is asked plainly, with the wish to be concise, and no example."""

from __future__ import annotations

from pb_graph.methods.concise import STYLE
from pb_graph.methods.registry import OURS, Asked, method
from pb_graph.prompts import Turn, whole_question


@method("brief", "Is told to be concise, and shown no example.", source=OURS)
def brief(asked: Asked) -> list[Turn]:
    """The wish alone: what an example tells of, small models carry over into other questions."""
    return whole_question(asked.query, asked.settings, way=STYLE)
