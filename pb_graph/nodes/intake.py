"""Reads the question, checks it, and starts a clean account for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage
from langgraph.types import Overwrite

from pb_graph.errors import InputError
from pb_graph.state import Query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import AnyMessage

    from pb_graph.nodes.contract import Run, Steps

MAX_QUESTION = 100_000
MAX_REFERENCE = 400_000
MAX_EXTRA = 20_000
MAX_LEVEL = 5


def intake(state: Mapping[str, Any], run: Run) -> Steps:
    """Turn the input into a `Query`, and forget what an earlier question left on the thread.

    Raises:
        InputError: No question, an empty or oversized one, or a level outside 1 to 5.
    """
    yield from ()  # no model call
    query = Query(
        question=_question(state),
        reference=_text(state, "reference", MAX_REFERENCE),
        instruction=_text(state, "instruction", MAX_EXTRA),
        answer_format=_text(state, "answer_format", MAX_EXTRA),
        domain=_text(state, "domain", MAX_EXTRA) or run.settings.domain,
        level=_level(state.get("level")),
    )
    run.tell({"event": "intake", "method": run.settings.method})
    return {
        "settings": run.settings.model_dump(mode="json"),
        "query": query,
        "plan": [],
        "budget": None,
        "ceiling": None,
        "shares": {},
        "answer": "",
        "answer_id": None,
        "results": Overwrite([]),
        "charges": Overwrite([]),
        "warnings": Overwrite([]),
    }


def _question(state: Mapping[str, Any]) -> str:
    given = state.get("question")
    if given is None:
        given = _last_human(state.get("messages") or [])
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


def _last_human(messages: Sequence[AnyMessage]) -> str | None:
    return next((str(m.text) for m in reversed(messages) if isinstance(m, HumanMessage)), None)


def _text(state: Mapping[str, Any], name: str, limit: int) -> str | None:
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
