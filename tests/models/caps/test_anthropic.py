"""A budget in Claude's words, by generation."""

from __future__ import annotations

from typing import Any

import pytest

from pb_graph.models.options import CallOptions, Thinking
from tests.support.payloads import anthropic_body


def by_hand(tokens: int) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": tokens}


def said(
    model: str,
    cap: int,
    mode: Thinking = "bounded",
    **own: Any,  # noqa: ANN401
) -> tuple[Any, Any]:
    """The thinking and the output configuration that are sent; the cap always is."""
    body = anthropic_body(CallOptions(cap, 9.0, thinking=mode), model=model, **own)
    assert body["max_tokens"] == cap
    return body.get("thinking"), body.get("output_config")


LOW = {"effort": "low"}
MEDIUM = {"effort": "medium"}
OFF = {"type": "disabled"}


@pytest.mark.parametrize(
    ("model", "cap", "thinking", "output"),
    [
        # Thinks only when asked to; knows no effort.
        ("claude-haiku-4-5", 200, None, None),
        # Thinks only when asked to; knows effort.
        ("claude-opus-4-5", 200, None, LOW),
        ("claude-sonnet-4-6", 9500, None, MEDIUM),
        # Thinks unasked, and can be told not to.
        ("claude-opus-5", 200, OFF, LOW),
        ("claude-opus-5", 2000, None, LOW),
        ("claude-opus-5", 9500, None, MEDIUM),
        ("claude-haiku-5-5", 200, OFF, None),
        ("claude-sonnet-5-5", 200, {"type": "between_tools"}, LOW),
        # Always thinks.
        ("claude-opus-5-5", 200, None, LOW),
        ("claude-fable-5-1", 200, None, LOW),
        # Not known to us.
        ("some-model", 200, None, None),
    ],
)
def test_each_generation_is_held_back_by_what_it_knows(
    model: str, cap: int, thinking: object, output: object
) -> None:
    assert said(model, cap) == (thinking, output)


@pytest.mark.parametrize(
    ("own", "cap", "mode", "sent"),
    [
        (4000, 8000, "bounded", by_hand(4000)),
        (4000, 5000, "bounded", by_hand(3976)),
        (4000, 1300, "bounded", OFF),  # below the least that there is
        (4000, 4001, "free", by_hand(4000)),
        (8192, 8192, "free", by_hand(7168)),  # it has to be less than the cap
    ],
)
def test_a_thinking_budget_is_lowered_to_leave_room_for_an_answer(
    own: int, cap: int, mode: Thinking, sent: object
) -> None:
    assert said("claude-sonnet-4-5", cap, mode, thinking=by_hand(own))[0] == sent


def test_what_the_caller_has_set_stands() -> None:
    adaptive = {"type": "adaptive"}
    assert said("claude-opus-4-6", 200, thinking=adaptive)[0] == adaptive
    thinking, output = said("claude-opus-5", 200, output_config={"effort": "high"})
    assert (thinking, output) == (None, {"effort": "high"})
    kept = {"effort": "low", "format": {"type": "json_schema", "schema": {}}}
    assert said("claude-opus-4-6", 200, output_config={"format": kept["format"]})[1] == kept


@pytest.mark.parametrize(
    ("model", "own", "thinking", "output"),
    [
        ("claude-sonnet-4-5", {"thinking": by_hand(1024)}, OFF, None),
        ("claude-opus-4-6", {"thinking": {"type": "adaptive"}}, OFF, LOW),
        ("claude-opus-5", {"thinking": {"type": "adaptive"}, "effort": "max"}, OFF, LOW),
        ("claude-opus-5-5", {"output_config": {"effort": "max"}}, None, LOW),
    ],
)
def test_without_thinking_it_is_the_least_the_model_allows(
    model: str, own: dict[str, Any], thinking: object, output: object
) -> None:
    assert said(model, 8192, "off", **own) == (thinking, output)


def test_the_timeout_is_ours_only_when_there_was_none() -> None:
    assert anthropic_body(CallOptions(9, 9.0), model="claude-opus-5")["timeout"] == 9.0
    assert "timeout" not in anthropic_body(CallOptions(9, 9.0), model="claude-opus-5", timeout=3.0)
