"""Short steps: the question, and the words that the answer is to begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.methods.concise import STYLE
from pb_graph.methods.registry import OURS, Asked, method
from pb_graph.prompts import whole_question

if TYPE_CHECKING:
    from pb_graph.prompts import Turn

OPENING = "Step 1:"


@method("short_steps", f"Is told to be concise, and to begin with '{OPENING}'.", source=OURS)
def short_steps(asked: Asked) -> list[Turn]:
    """The wish to be concise, and an opening: a model goes on in the style that it has begun in.

    The wish alone hardly shortens anything. An opening that speaks of a solution (*Short solution,
    step by step:*) makes small models leave steps out, and the form of the answer, too.
    """
    way = f'{STYLE} Begin your answer with the words "{OPENING}".'
    return whole_question(asked.query, asked.settings, way=way)
