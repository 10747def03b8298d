"""A budget in Ollama's words."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_ollama import ChatOllama

from pb_graph.models.caps import OLLAMA_OPTIONS, ollama
from pb_graph.models.options import CallOptions, Thinking
from tests.support.payloads import ollama_params


def think(cap: int, thinking: Thinking = "bounded", **own: Any) -> object:  # noqa: ANN401
    """What is sent as ``think``; the cap always is, beside the caller's own options."""
    options: dict[str, Any] = {"model": "qwen3", "temperature": 0.3, "num_predict": 5000} | own
    params = ollama_params(CallOptions(cap, 9.0, {"type": "object"}, thinking), **options)
    assert params["options"] == {"temperature": 0.3, "num_predict": cap}
    return params["think"]


@pytest.mark.parametrize(
    ("cap", "own", "sent"),
    [
        (200, {}, False),
        (1365, {}, None),
        (200, {"reasoning": True}, True),
        (200, {"model": "gpt-oss:20b"}, "low"),
    ],
)
def test_thinking_is_switched_off_where_it_would_not_fit(
    cap: int, own: dict[str, Any], sent: object
) -> None:
    assert think(cap, **own) == sent


def test_a_cap_that_is_no_budget_leaves_thinking_alone() -> None:
    assert think(200, "free") is None


@pytest.mark.parametrize(
    ("own", "sent"),
    [
        ({"reasoning": True}, False),
        ({"model": "gpt-oss:20b", "reasoning": "high"}, "low"),
    ],
)
def test_without_thinking_it_is_the_least_the_model_allows(
    own: dict[str, Any], sent: object
) -> None:
    assert think(8192, "off", **own) == sent


def test_all_options_that_its_chat_model_has_are_passed_on() -> None:
    """They are collected by hand: an upgrade that adds one shows here."""
    fields = ChatOllama.model_fields
    own = {name: ["."] if name == "stop" else 1 for name in OLLAMA_OPTIONS if name in fields}
    collected: Any = ChatOllama(model="qwen3", num_predict=7, **own)._chat_params([])["options"]
    sent = ollama(ChatOllama(model="qwen3", **own), CallOptions(7, 9.0))["options"]
    assert sent == collected
    assert set(OLLAMA_OPTIONS) <= set(fields)
