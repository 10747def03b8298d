"""From what a user writes, or does not write, to a chat model and its class."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from pb_graph import build_graph
from pb_graph.errors import ModelSetupError
from pb_graph.local import server as local
from pb_graph.models import resolve
from pb_graph.models.caps import policy_for, vllm
from pb_graph.models.classes import (
    can_stop_thinking,
    find_class,
    takes_system_message,
)
from pb_graph.models.options import key_of
from pb_graph.models.reply import BLOCKING, run_sync
from pb_graph.models.resolve import model_name
from pb_graph.run.parts import GraphParts
from pb_graph.run.run import Run
from pb_graph.settings import Context, Settings
from tests.support.chat_model import ScriptedChat
from tests.support.clients import at_a_server

SETTINGS = Settings(timeout=7.0, max_retries=1)


@pytest.mark.parametrize(
    ("given", "environment", "has_extra", "named"),
    [
        ("openai:gpt-5-mini", "openai:other", False, "openai:gpt-5-mini"),
        (None, "openai:other", False, "openai:other"),
        (None, "", True, f"local:{local.DEFAULT_MODEL}"),
        (None, "", False, None),  # never an implicit paid call
    ],
)
def test_the_model_is_the_one_given_then_that_of_the_environment_then_the_local_one(
    given: str | None,
    environment: str,
    has_extra: bool,
    named: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resolve, "find_spec", lambda _: object() if has_extra else None)
    monkeypatch.setenv("PB_MODEL", environment)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-here-for-other-things")
    if named:
        assert model_name(given) == named
        return
    with pytest.raises(ModelSetupError, match="No model was given") as caught:
        model_name(given)
    for way in ("openai:", "chat model object", "PB_MODEL", ".[local]"):
        assert way in str(caught.value)


@pytest.mark.parametrize("name", ["gpt-5", "local:"])
def test_a_string_that_names_no_model_is_explained(name: str) -> None:
    with pytest.raises(ModelSetupError, match=r"'provider:model'.*pb-graph models"):
        model_name(name)


def test_the_time_limit_reaches_the_providers_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    model: Any = resolve.resolve("openai:some:model", SETTINGS)
    assert (model.model_name, model.request_timeout) == ("some:model", 7.0)
    model = resolve.resolve("ollama:qwen3", SETTINGS)
    assert model.client_kwargs == {"timeout": 7.0}


def test_a_local_model_gets_time_unless_a_limit_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, float]] = []
    monkeypatch.setattr(
        local, "local_chat_model", lambda name, *, timeout: asked.append((name, timeout))
    )
    resolve.resolve("local:/models/a:b.gguf", Settings())
    resolve.resolve("local:smollm2-135m", SETTINGS)
    assert asked == [("/models/a:b.gguf", local.TIMEOUT), ("smollm2-135m", 7)]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("openai:gpt-5", "Cannot set up .*OPENAI_API_KEY"),
        ("mistralai:large", "pip install langchain-mistralai"),
        ("nosuch:model", "no provider is called 'nosuch'.*providers are: anthropic, .*xai"),
    ],
)
def test_what_a_provider_lacks_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    monkeypatch.setitem(sys.modules, "langchain_mistralai", None)
    with pytest.raises(ModelSetupError, match=told):
        resolve.resolve(name, SETTINGS)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("opnai:gpt-5", "did you mean 'openai'"), ("local:smolm2-135m", "smollm2-135m")],
)
def test_a_misspelled_model_is_refused_when_the_graph_is_built(name: str, meant: str) -> None:
    with pytest.raises(ModelSetupError, match=meant):
        build_graph(name)


def test_a_local_model_is_not_loaded_to_check_its_name() -> None:
    build_graph("local:smollm2-135m", planner="local:/no/such/file.gguf")


def made(name: str, **options: Any) -> BaseChatModel:  # noqa: ANN401 -- of the model
    options |= {} if name.startswith("ollama") else {"api_key": SecretStr("sk-x")}
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
        ("llama3.2", "small"),
        ("claude-sonnet-4-20250514-1m", "large"),
        ("ByteDance-Seed/Seed-OSS-36B-Instruct", "thinking"),
        ("moonshotai/Kimi-K2.5", "thinking"),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "thinking"),
        ("nvidia/OpenReasoning-Nemotron-7B", "thinking"),
        ("gemini-flash-latest", "thinking"),
        ("glm-4.6v-flash", "thinking"),
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
        ("openai:gpt-5-pro", "thinking"),
        ("openai:gpt-5.1", "large"),  # thinks only at an effort that is asked for
        ("openai:gpt-4.1", "large"),
        ("anthropic:claude-sonnet-4-5", "large"),
        ("anthropic:claude-sonnet-5", "thinking"),
        ("google_genai:gemini-2.5-flash", "thinking"),
    ],
)
def test_a_profile_tells_what_a_model_does_unasked(name: str, found: str) -> None:
    assert find_class(made(name)) == (found, "profile")


TOLD_NOT_TO = {"chat_template_kwargs": {"enable_thinking": False}}
BY_HAND = {"type": "enabled", "budget_tokens": 2000}


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (at_a_server("gpt-5.1", reasoning_effort="low"), "thinking"),
        (at_a_server("o4-mini", reasoning_effort="none"), "large"),
        (at_a_server("m", extra_body=TOLD_NOT_TO), "large"),
        (at_a_server("m", extra_body={"thinking": {"type": "enabled"}}), "thinking"),
        (made("anthropic:claude-sonnet-4-5", thinking=BY_HAND), "thinking"),
        (made("ollama:qwen3:1.7b", reasoning=False), "small"),
    ],
)
def test_what_the_caller_set_on_the_model_beats_profile_and_name(model: Any, found: str) -> None:  # noqa: ANN401
    assert find_class(model) == (found, "model")


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["llama3.2:1b", "gpt-4o-mini"], ("large", "profile")),
        (["llama3.2:1b", "m"], ("large", "default")),  # it may turn out to think
        (["gpt-4.1", "m", "llama3.2:1b"], ("large", "default")),
        (["llama3.2:1b", "m", "deepseek-reasoner"], ("thinking", "name")),
        (["gpt-4.1", "m-thought"], ("thinking", "reply")),
        (["llama3.2:1b", "m-did-not"], ("large", "reply")),
    ],
)
def test_the_class_of_fallbacks_is_that_of_the_model_that_needs_the_most_room(
    names: list[str], found: tuple[str, str]
) -> None:
    replied = {key_of(at_a_server(f"m-{did}")): did == "thought" for did in ("thought", "did-not")}
    for chain in (names, names[::-1]):
        first, *others = map(at_a_server, chain)
        parts = GraphParts(SETTINGS, {"solver": first.with_fallbacks(others)}, replied=replied)
        run = Run(parts, SETTINGS, Context(), BLOCKING, {})
        assert run_sync(run.class_of("solver")) == found


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
