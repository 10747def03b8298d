"""A budget in the words of servers that one runs oneself."""

from __future__ import annotations

from typing import Any

import pytest

from pb_graph.errors import ModelSetupError
from pb_graph.models.caps import CapPolicy, continuation, llama_cpp, openai_compatible, sglang, vllm
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions, Thinking
from tests.support.chat_model import ScriptedChat
from tests.support.payloads import ELSEWHERE, openai_body

SCHEMA = {"type": "object"}
NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}


def by_both_names(tokens: int) -> dict[str, int]:
    return {"reasoning_budget_tokens": tokens, "thinking_budget_tokens": tokens}


def sent(
    policy: CapPolicy,
    cap: int,
    thinking: Thinking = "bounded",
    body: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What is sent beside the model, the messages and the cap, which always are."""
    limits = CallOptions(cap, 9.0, thinking=thinking)
    options = {"policy": policy, "base_url": ELSEWHERE, "extra_body": body, "max_tokens": 5000}
    found = openai_body(limits, **options)
    assert found["max_tokens"] == cap
    assert "max_completion_tokens" not in found
    return {
        name: value
        for name, value in found.items()
        if name not in {"model", "messages", "stream", "max_tokens"}
    }


@pytest.mark.parametrize(
    ("policy", "cap", "own", "knob"),
    [
        (vllm, 200, {}, {"thinking_token_budget": 136}),
        (vllm, 8192, {}, {"thinking_token_budget": 7168}),
        (vllm, 24, {}, {"thinking_token_budget": 1}),
        (vllm, 200, {"thinking_token_budget": 50}, {"thinking_token_budget": 50}),
        (vllm, 200, {"thinking_token_budget": 5000}, {"thinking_token_budget": 136}),
        (sglang, 200, {}, {"custom_params": {"thinking_budget": 136}}),
        (sglang, 24, {}, {"custom_params": {"thinking_budget": 0}}),
        (
            sglang,
            200,
            {"custom_params": {"thinking_budget": 50, "other": 1}},
            {"custom_params": {"thinking_budget": 50, "other": 1}},
        ),
        (llama_cpp, 200, {}, by_both_names(136)),
        (llama_cpp, 24, {}, by_both_names(0)),
        (llama_cpp, 200, {"reasoning_budget_tokens": -1}, by_both_names(136)),
        (llama_cpp, 200, {"thinking_budget_tokens": 50}, by_both_names(50)),
    ],
)
def test_thinking_gets_the_cap_minus_the_headroom(
    policy: CapPolicy, cap: int, own: dict[str, Any], knob: object
) -> None:
    assert sent(policy, cap, body=own) == knob


@pytest.mark.parametrize("policy", [vllm, sglang, llama_cpp])
def test_a_cap_that_is_no_budget_leaves_thinking_alone(policy: CapPolicy) -> None:
    assert sent(policy, 200, "free") == {}


@pytest.mark.parametrize(
    ("policy", "knob"),
    [
        (vllm, {"thinking_token_budget": 1}),
        (sglang, {"custom_params": {"thinking_budget": 0}}),
        (llama_cpp, by_both_names(0)),
    ],
)
def test_without_thinking_templates_are_told_and_the_budget_is_the_least(
    policy: CapPolicy, knob: dict[str, Any]
) -> None:
    assert sent(policy, 8192, "off") == NO_THINKING | knob


@pytest.mark.parametrize("policy", [vllm, sglang, llama_cpp])
def test_the_schema_is_sent(policy: CapPolicy) -> None:
    body = openai_body(CallOptions(200, 9.0, SCHEMA), policy=policy, base_url=ELSEWHERE)
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize("policy", [vllm, sglang, llama_cpp])
def test_a_model_of_another_protocol_is_refused_at_once(policy: CapPolicy) -> None:
    with pytest.raises(ModelSetupError, match=r"ScriptedChat.*cap_policy"):
        ChatClient(ScriptedChat(), policy)


@pytest.mark.parametrize(
    ("policy", "knobs"),
    [
        (vllm, {"continue_final_message": True, "add_generation_prompt": False}),
        (sglang, {"continue_final_message": True}),
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
    assert continuation(policy)
    assert not continuation(openai_compatible)
