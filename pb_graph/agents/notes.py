"""Add notes to the messages of a prompt and of an answer."""
# ruff: noqa: ANN401 -- messages and contents of any type

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from pb_graph.tasks import ends_of

_NOT_FINISHED = "The task is not finished: too few tokens were left for its answer."
USED_UP: dict[str, Any] = {"finish_reason": "length", "budget_used_up": True}
_MIN_SHORTENED = 300  # characters of the longest text of a prompt that may be shortened


def appended(message: Any, note: str) -> Any:
    """Return a message with a note at its end."""
    return message.model_copy(update={"content": joined(message.content, note)})


def joined(first: Any, second: Any) -> Any:
    """Join two contents. Blocks stay unchanged, because a prompt cache may know them."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    blocks: list[Any] = []
    for part in (first, second):
        blocks += [{"type": "text", "text": part}] if isinstance(part, str) else part
    return blocks


def unfinished(message: AIMessage | None, note: str = "") -> AIMessage:
    """Return a message that says that it is not finished: in its text, if it has none.

    Args:
        message: What the model wrote, if it wrote anything.
        note: The reason as a sentence.
    """
    message = message or AIMessage("")
    metadata = {**message.response_metadata, **USED_UP}
    content = message.content if message.text else f"{note} {_NOT_FINISHED}".strip()
    return message.model_copy(update={"content": content, "response_metadata": metadata})


def shortened(messages: Sequence[BaseMessage]) -> list[BaseMessage] | None:
    """Return a prompt whose longest text has lost its middle; None if no text is long.

    Args:
        messages: The prompt. A system message stays whole.
    """
    sizes = [len(m.text) if m.type != "system" else 0 for m in messages]
    longest = max(sizes, default=0)
    if longest < _MIN_SHORTENED:
        return None
    place, part = sizes.index(longest), longest // 3
    text = ends_of(messages[place].text, part, part)
    short = messages[place].model_copy(update={"content": text})
    return [*messages[:place], short, *messages[place + 1 :]]


def without_tool_calls(message: AIMessage) -> AIMessage:
    """Return a message without its tool calls, the last of which may be incomplete."""
    update = {"content": str(message.text), "tool_calls": [], "invalid_tool_calls": []}
    return message.model_copy(update=update)
