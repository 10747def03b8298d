"""Brief: the wish to be concise, no example, and the words that the answer is to begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.methods.concise import STYLE
from pb_graph.methods.registry import OURS, Asked, method
from pb_graph.prompts import whole_question

if TYPE_CHECKING:
    from pb_graph.prompts import Turn

OPENING = "Short solution, step by step:"


@method("brief", "Is told how to begin its answer: as a short solution in steps.", source=OURS)
def brief(asked: Asked) -> list[Turn]:
    """The wish, and an opening: a model goes on in the style that it has begun in.

    The wish alone hardly shortens anything. An opening that does not speak of steps (*Short
    solution:*) makes small models guess; what an example tells of, they carry over into other
    questions.
    """
    way = f'{STYLE} Begin your answer with the words "{OPENING}".'
    return whole_question(asked.query, asked.settings, way=way)
