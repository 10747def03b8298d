"""From what a user writes, or does not write, to a chat model."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pb_graph import InputError, build_graph
from pb_graph.errors import ModelSetupError
from pb_graph.local import server as local
from pb_graph.models import resolve
from pb_graph.models.resolve import model_name, retry_policy_for
from pb_graph.settings import Settings
from tests.support.chat_model import ScriptedChat

SETTINGS = Settings(timeout=7.0, max_retries=1)


@pytest.fixture
def no_local_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "default_model", lambda: None)


@pytest.mark.usefixtures("no_local_extra")
class TestWhichModel:
    def test_the_one_given_comes_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PB_MODEL", "openai:other")
        assert model_name("openai:gpt-5-mini") == "openai:gpt-5-mini"

    @pytest.mark.parametrize("given", [None, ""])
    def test_then_the_environment(self, monkeypatch: pytest.MonkeyPatch, given: str | None) -> None:
        monkeypatch.setenv("PB_MODEL", "openai:other")
        assert model_name(given) == "openai:other"

    def test_then_the_local_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(local, "default_model", lambda: "smollm2-135m")
        assert model_name(None) == "local:smollm2-135m"

    def test_else_an_error_names_the_ways_out(self) -> None:
        with pytest.raises(ModelSetupError) as caught:
            model_name(None)
        for way in ("openai:", "chat model object", "PB_MODEL", "plan-and-budget[local]"):
            assert way in str(caught.value)

    def test_never_an_implicit_paid_call(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-here-for-other-things")
        with pytest.raises(ModelSetupError, match="No model was given"):
            model_name(None)


def test_the_local_default_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ModelSetupError, match="No model was given"):
        model_name(None)


@pytest.mark.parametrize("name", ["gpt-5", ":gpt-5", "openai:", "local:", ":", " ", "local"])
def test_a_string_that_names_no_model_is_explained(name: str) -> None:
    with pytest.raises(ModelSetupError, match=r"'provider:model'.*pb-graph models"):
        model_name(name)


def test_the_time_limit_reaches_the_providers_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    model: Any = resolve.resolve("openai:some:model", SETTINGS)
    assert (model.model_name, model.request_timeout) == ("some:model", 7.0)


@pytest.mark.parametrize(
    ("given", "retries"),
    [("openai:gpt-5", 1), ("local:smollm2-135m", 0), (ScriptedChat(), 1)],
    ids=["a provider's", "a local one", "an object"],
)
def test_a_local_model_is_asked_once(given: Any, retries: int) -> None:  # noqa: ANN401
    assert retry_policy_for(given, SETTINGS).max_retries == retries


def test_the_local_default_is_asked_once_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "default_model", lambda: "smollm2-135m")
    assert retry_policy_for(None, SETTINGS).max_retries == 0


def test_a_local_model_gets_time_unless_a_limit_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, float]] = []
    monkeypatch.setattr(
        local, "local_chat_model", lambda name, *, timeout: asked.append((name, timeout))
    )
    resolve.resolve("local:/models/a:b.gguf", Settings())
    resolve.resolve("local:smollm2-135m", SETTINGS)
    resolve.resolve("local:smollm2-135m", Settings(timeout=120.0))
    assert asked == [
        ("/models/a:b.gguf", local.TIMEOUT),
        ("smollm2-135m", 7),
        ("smollm2-135m", 120),
    ]


def test_a_run_keeps_which_settings_were_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def made(_: str, *, timeout: float) -> ScriptedChat:
        asked.append(timeout)
        return ScriptedChat()

    monkeypatch.setattr(local, "local_chat_model", made)
    for settings in ({}, {"timeout": 120.0}):
        graph = build_graph("local:smollm2-135m", settings={"method": "vanilla", **settings})
        graph.invoke({"question": "How many?"})
    assert asked == [local.TIMEOUT, 120]


def test_a_missing_key_names_the_variable() -> None:
    with pytest.raises(ModelSetupError, match=r"Cannot set up 'openai:gpt-5'.*OPENAI_API_KEY\.$"):
        resolve.resolve("openai:gpt-5", SETTINGS)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_mistralai", None)
    with pytest.raises(ModelSetupError, match=r"langchain-mistralai.*Install the package"):
        resolve.resolve("mistralai:large", SETTINGS)


@pytest.mark.parametrize("name", ["nosuch:model", "http://localhost:8000/v1", "open ai:gpt-5"])
def test_an_unknown_provider_lists_the_known_ones(name: str) -> None:
    with pytest.raises(ModelSetupError, match=r"there are: local, anthropic, .*xai") as caught:
        resolve.resolve(name, SETTINGS)
    assert len(str(caught.value)) < 500
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("name", "meant"),
    [("opnai:gpt-5", "openai"), ("local:smolm2-135m", "smollm2-135m"), ("gpt-5", "provider:model")],
)
def test_a_misspelled_model_is_refused_when_the_graph_is_built(name: str, meant: str) -> None:
    with pytest.raises(ModelSetupError, match=meant) as caught:
        build_graph(name)
    assert isinstance(caught.value, InputError)  # so that commands end with the code for misuse


def test_a_local_model_is_not_loaded_to_check_its_name() -> None:
    build_graph("local:smollm2-135m", planner="local:/no/such/file.gguf")
