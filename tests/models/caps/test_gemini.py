"""A budget in Gemini's words, by generation."""

from __future__ import annotations

from typing import Any

import pytest

from pb_graph.models.options import CallOptions, Thinking
from tests.support.payloads import gemini_config


def sent(model: str, cap: int, thinking: Thinking = "bounded", **own: Any) -> dict[str, Any]:  # noqa: ANN401
    """The thinking configuration that is sent; the cap always is."""
    config = gemini_config(CallOptions(cap, 9.0, thinking=thinking), model=model, **own)
    assert config["max_output_tokens"] == cap
    found: dict[str, Any] = config.get("thinking_config", {})
    return found


def budget(tokens: int) -> dict[str, Any]:
    return {"thinking_budget": tokens}


def level(name: str) -> dict[str, Any]:
    return {"thinking_level": name.upper()}


@pytest.mark.parametrize(
    ("model", "cap", "thinking"),
    [
        ("gemini-2.5-flash", 50, budget(0)),
        ("gemini-2.5-flash", 200, budget(136)),
        ("gemini-2.5-flash", 60_000, budget(24_576)),
        ("models/gemini-2.5-flash-preview-09-2025", 200, budget(136)),
        ("gemini-2.5-pro", 50, budget(128)),  # it cannot do without
        ("gemini-2.5-pro", 2000, budget(1500)),
        ("gemini-2.5-flash-lite", 2000, {}),  # it does not think unasked
        ("gemini-2.5-flash-image", 2000, {}),
        ("gemini-3-flash-preview", 200, level("minimal")),
        ("gemini-3-flash-preview", 2000, level("low")),
        ("gemini-3.1-pro-preview", 200, level("low")),
        ("gemini-3.1-flash-lite", 200, {}),  # as much as by itself
        ("some-model", 200, {}),
    ],
)
def test_each_generation_has_its_own_knob(model: str, cap: int, thinking: object) -> None:
    assert sent(model, cap) == thinking


@pytest.mark.parametrize(
    ("own", "thinking"),
    [
        ({"thinking_budget": 100}, budget(100)),
        ({"thinking_budget": 5000}, budget(136)),
        ({"thinking_budget": -1}, budget(136)),
        ({"thinking_level": "high"}, level("high")),
    ],
)
def test_a_budget_of_the_callers_is_lowered_where_it_is_too_large(
    own: dict[str, Any], thinking: object
) -> None:
    assert sent("gemini-2.5-flash", 200, **own) == thinking


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-2.5-pro", "gemini-3-flash-preview"])
def test_a_cap_that_is_no_budget_leaves_thinking_alone(model: str) -> None:
    assert sent(model, 200, "free") == {}


@pytest.mark.parametrize(
    ("model", "own", "thinking"),
    [
        ("gemini-2.5-flash", {"thinking_budget": 500}, budget(0)),
        ("gemini-2.5-flash-lite", {"thinking_budget": 5000}, budget(0)),
        ("gemini-2.5-pro", {}, budget(128)),
        ("gemini-3-flash-preview", {"thinking_level": "high"}, level("minimal")),
    ],
)
def test_without_thinking_it_is_the_least_the_model_allows(
    model: str, own: dict[str, Any], thinking: object
) -> None:
    assert sent(model, 8192, "off", **own) == thinking
