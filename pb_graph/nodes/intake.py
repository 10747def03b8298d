"""Reads the question, checks it, and starts a clean account for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from langchain_core.messages import HumanMessage
from langgraph.types import Overwrite

from pb_graph.errors import InputError
from pb_graph.state import Query, emptied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import AnyMessage

    from pb_graph.runtime.node import NodeContext
    from pb_graph.state import State

MAX_QUESTION = 100_000
MAX_REFERENCE = 400_000
MAX_EXTRA = 20_000
MAX_LEVEL = 5


def intake(state: State, run: NodeContext) -> State:
    """Turn the input into a `Query`, and forget what an earlier question left on the thread.

    Raises:
        InputError: No question, an empty or oversized one, or a level outside 1 to 5.
    """
    query = Query(
        question=_question(state),
        reference=_text(state, "reference", MAX_REFERENCE),
        instruction=_text(state, "instruction", MAX_EXTRA),
        answer_format=_text(state, "answer_format", MAX_EXTRA),
        domain=_text(state, "domain", MAX_EXTRA) or run.settings.domain,
        level=_level(state.get("level")),
    )
    run.tell({"event": "intake", "method": run.settings.method})
    update = emptied() | {
        "settings": run.settings.model_dump(mode="json"),
        "query": query,
        "warnings": Overwrite(_unused(state)),
    }
    return cast("State", update)


def _question(state: State) -> str:
    given = state.get("question")
    if given is None and (last := _last_human(state.get("messages") or [])):
        given = str(last.text)
    if not isinstance(given, str):
        msg = 'There is no question. Give {"question": "..."} or {"messages": [...]}.'
        raise InputError(msg)
    question = given.strip()
    if not question:
        msg = "The question is empty. Give it as text."
        raise InputError(msg)
    if len(question) > MAX_QUESTION:
        msg = (
            f"The question has {len(question)} characters; at most {MAX_QUESTION} are taken. "
            "Shorten it, or give long material as 'reference'."
        )
        raise InputError(msg)
    return question


def _last_human(messages: Sequence[AnyMessage]) -> HumanMessage | None:
    return next((said for said in reversed(messages) if isinstance(said, HumanMessage)), None)


def _unused(state: State) -> list[str]:
    """A warning about what else there is in the messages, when the question comes from them."""
    messages = state.get("messages") or []
    last = _last_human(messages)
    if state.get("question") is not None or last is None:
        return []
    blocks = last.content if isinstance(last.content, list) else []
    other = sum(isinstance(block, dict) and block.get("type") != "text" for block in blocks)
    parts = {"other message(s)": len(messages) - 1, "image(s) or file(s)": other}
    unused = " and ".join(f"{count} {what}" for what, count in parts.items() if count)
    if not unused:
        return []
    note = "were not read: only the text of the last human message is the question. Give what else"
    return [f"intake: {unused} {note} it needs as 'question' or 'reference'"]


def _text(state: State, name: str, limit: int) -> str | None:
    value = state.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        msg = f"{name!r} must be text, not {type(value).__name__}."
        raise InputError(msg)
    if len(value) > limit:
        msg = f"{name!r} has {len(value)} characters; at most {limit} are taken. Shorten it."
        raise InputError(msg)
    return value or None


def _level(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_LEVEL:
        msg = f"A level is a whole number from 1 (easiest) to 5 (hardest), not {value!r}."
        raise InputError(msg)
    return value
