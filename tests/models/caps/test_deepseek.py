"""A budget in DeepSeek's words."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_deepseek import ChatDeepSeek
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import BaseChatOpenAI

from pb_graph.models.options import CallOptions, Thinking
from tests.support.payloads import openai_body

OFF = {"thinking": {"type": "disabled"}}


def sent(
    model: str,
    cap: int,
    thinking: Thinking = "bounded",
    kind: type[BaseChatOpenAI] = ChatDeepSeek,
    **own: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """What is sent beside the model, the messages and the cap, which always are."""
    limits = CallOptions(cap, 9.0, {"type": "object"}, thinking)
    body = openai_body(limits, kind=kind, model=model, **own)
    assert body["max_tokens"] == cap
    return {
        name: value
        for name, value in body.items()
        if name not in {"model", "messages", "stream", "max_tokens"}
    }


@pytest.mark.parametrize(
    ("model", "cap", "thinking"),
    [
        ("deepseek-v4-flash", 200, OFF),
        ("deepseek-v4-pro", 2000, {"reasoning_effort": "low"}),
        ("deepseek-v4-pro", 30_000, {}),
    ],
)
def test_thinking_is_off_or_low_where_it_would_not_fit(
    model: str, cap: int, thinking: object
) -> None:
    assert sent(model, cap) == thinking


def test_the_address_tells_as_well_as_the_class() -> None:
    options = {"kind": ChatOpenAI, "base_url": "https://api.deepseek.com/v1", "max_tokens": 5000}
    assert sent("deepseek-v4-flash", 200, **options) == OFF


@pytest.mark.parametrize(
    "own",
    [
        {"reasoning_effort": "max"},
        {"extra_body": {"thinking": {"type": "enabled"}}},
    ],
)
def test_what_the_caller_has_set_stands(own: dict[str, Any]) -> None:
    assert sent("deepseek-v4-flash", 200, **own) == own.get("extra_body", own)
    assert sent("deepseek-v4-flash", 200, "free") == {}


@pytest.mark.parametrize("own", [{}, {"extra_body": {"thinking": {"type": "enabled"}}}])
def test_without_thinking_it_is_off(own: dict[str, Any]) -> None:
    assert sent("deepseek-v4-flash", 8192, "off", **own) == OFF
