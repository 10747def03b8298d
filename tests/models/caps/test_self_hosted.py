"""A budget in the words of servers that one runs oneself."""

from __future__ import annotations

from typing import Any

import pytest

from pb_graph.models.caps import (
    CapPolicy,
    llama_cpp,
    openai_compatible,
    supports_continuation,
    vllm,
)
from pb_graph.models.options import CallOptions, Thinking
from tests.support.payloads import ELSEWHERE, openai_body

SCHEMA = {"type": "object"}
NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}


def sent(
    policy: CapPolicy,
    cap: int,
    thinking: Thinking = "bounded",
) -> dict[str, Any]:
    """What is sent beside the model, the messages and the cap, which always are."""
    limits = CallOptions(cap, 9.0, thinking=thinking)
    options = {"policy": policy, "base_url": ELSEWHERE, "max_tokens": 5000}
    found = openai_body(limits, **options)
    assert found["max_tokens"] == cap
    assert "max_completion_tokens" not in found
    return {
        name: value
        for name, value in found.items()
        if name not in {"model", "messages", "stream", "max_tokens"}
    }


@pytest.mark.parametrize(
    ("policy", "cap", "knob"),
    [
        (vllm, 200, {"thinking_token_budget": 136}),
        (vllm, 24, {"thinking_token_budget": 1}),
        (llama_cpp, 200, {"reasoning_budget_tokens": 136}),
        (llama_cpp, 24, {"reasoning_budget_tokens": 0}),
    ],
)
def test_thinking_gets_the_cap_minus_the_headroom(
    policy: CapPolicy, cap: int, knob: object
) -> None:
    assert sent(policy, cap) == knob


@pytest.mark.parametrize("policy", [vllm, llama_cpp])
def test_a_cap_that_is_no_budget_leaves_thinking_alone(policy: CapPolicy) -> None:
    assert sent(policy, 200, "free") == {}


@pytest.mark.parametrize(
    ("policy", "knob"),
    [
        (vllm, {"thinking_token_budget": 1}),
        (llama_cpp, {"reasoning_budget_tokens": 0}),
    ],
)
def test_without_thinking_templates_are_told_and_the_budget_is_the_least(
    policy: CapPolicy, knob: dict[str, Any]
) -> None:
    assert sent(policy, 8192, "off") == NO_THINKING | knob


@pytest.mark.parametrize("policy", [vllm, llama_cpp])
def test_the_schema_is_sent(policy: CapPolicy) -> None:
    body = openai_body(CallOptions(200, 9.0, SCHEMA), policy=policy, base_url=ELSEWHERE)
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize(
    ("policy", "knobs"),
    [
        (vllm, {"continue_final_message": True, "add_generation_prompt": False}),
        (llama_cpp, {}),
    ],
)
def test_a_server_is_told_to_go_on_from_a_last_turn_of_the_models(
    policy: CapPolicy, knobs: dict[str, bool]
) -> None:
    for continues in (True, False):
        limits = CallOptions(100, 9.0, thinking="free", continue_last=continues)
        body = openai_body(limits, policy=policy, base_url=ELSEWHERE)
        told = {name: value for name, value in body.items() if name in knobs or "continue" in name}
        assert told == (knobs if continues else {})
    assert supports_continuation(policy)
    assert not supports_continuation(openai_compatible)
