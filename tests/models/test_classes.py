"""How a model's class is found, and what the classes decide."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph.models.caps import policy_for, vllm
from pb_graph.models.classes import can_stop_thinking, find_class, takes_system_message
from tests.support.chat_model import ScriptedChat
from tests.support.payloads import ELSEWHERE

KEY = SecretStr("sk-x")


def at_a_server(name: str, **options: Any) -> ChatOpenAI:  # noqa: ANN401 -- of the model
    return ChatOpenAI(model=name, base_url=ELSEWHERE, api_key=KEY, **options)


def made(name: str, **options: Any) -> BaseChatModel:  # noqa: ANN401 -- of the model
    options |= {} if name.startswith("ollama") else {"api_key": KEY}
    model: BaseChatModel = init_chat_model(name, **options)
    return model


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("r1", "thinking"),
        ("DeepSeek-R1-Distill-Llama-70B", "thinking"),
        ("deepseek-r1-distill-qwen-1.5b", "thinking"),
        ("Qwen/QwQ-32B", "thinking"),
        ("Qwen/Qwen3-8B", "thinking"),
        ("qwen3-30b-a3b-instruct-2507", "large"),
        ("qwen3-coder:30b", "large"),
        ("openai/gpt-oss-20b", "thinking"),
        ("kimi-k2-thinking", "thinking"),
        ("grok-4-fast-non-reasoning", "large"),
        ("claude-3-5-haiku-20241022", "large"),
        ("us.anthropic.claude-sonnet-5-v1:0", "thinking"),
        ("llama-3.1-8b-instruct", "large"),
        ("llama3.2:1b", "small"),
        ("smollm2-360m", "small"),
        ("gpt-4o-mini", "large"),
    ],
)
def test_a_name_tells_the_class(name: str, found: str) -> None:
    assert find_class(name) == (found, "name")
    assert find_class(at_a_server(name)).name == found


def test_the_catalog_is_small_and_a_name_that_tells_nothing_is_large() -> None:
    assert find_class("local:qwen2.5-coder-1.5b") == ("small", "catalog")
    assert find_class("local:/weights/r1-7b.gguf") == ("thinking", "name")
    assert find_class(at_a_server("m")) == ("large", "default")
    assert find_class(ScriptedChat()) == ("large", "profile")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("openai:o4-mini", "thinking"),
        ("openai:gpt-5-mini", "thinking"),
        ("openai:gpt-5.1", "large"),  # thinks only at an effort that is asked for
        ("openai:gpt-4.1", "large"),
        ("anthropic:claude-sonnet-4-5", "large"),
        ("anthropic:claude-sonnet-5", "thinking"),
        ("google_genai:gemini-2.5-flash", "thinking"),
    ],
)
def test_a_profile_tells_what_a_model_does_unasked(name: str, found: str) -> None:
    assert find_class(made(name)) == (found, "profile")


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (at_a_server("gpt-5.1", reasoning_effort="low"), "thinking"),
        (at_a_server("o4-mini", reasoning_effort="none"), "large"),
        (
            at_a_server("m", extra_body={"chat_template_kwargs": {"enable_thinking": False}}),
            "large",
        ),
        (at_a_server("m", extra_body={"thinking": {"type": "enabled"}}), "thinking"),
        (
            made(
                "anthropic:claude-sonnet-4-5",
                thinking={"type": "enabled", "budget_tokens": 2000},
            ),
            "thinking",
        ),
        (made("ollama:qwen3:1.7b", reasoning=False), "small"),
    ],
)
def test_what_the_caller_set_on_the_model_beats_profile_and_name(model: Any, found: str) -> None:  # noqa: ANN401
    assert find_class(model) == (found, "model")


def test_whether_thinking_can_stop_is_read_off_the_arguments_of_a_call() -> None:
    model = at_a_server("r1")
    assert not can_stop_thinking(model, policy_for(model))
    assert can_stop_thinking(model, vllm)
    for name, stops in (("openai:gpt-5-mini", True), ("openai:o3", False), ("ollama:qwen3", True)):
        model_by_name = made(name)
        assert can_stop_thinking(model_by_name, policy_for(model_by_name)) == stops


def test_r1_gets_no_system_message() -> None:
    assert not takes_system_message(at_a_server("deepseek-r1:7b"))
    assert takes_system_message(at_a_server("qwq-32b"))
