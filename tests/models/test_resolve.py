"""From what a user writes, or does not write, to a chat model."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pb_graph import build_graph
from pb_graph.errors import ModelSetupError
from pb_graph.local import server as local
from pb_graph.models import resolve
from pb_graph.models.resolve import model_name
from pb_graph.settings import Settings

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
