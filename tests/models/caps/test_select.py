"""Which policy a model gets, and what the select must not cost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_deepseek import ChatDeepSeek
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_ollama import ChatOllama
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from langchain_openai.chat_models.base import BaseChatOpenAI
from pydantic import SecretStr

from pb_graph.errors import ModelCallError
from pb_graph.local import server as local
from pb_graph.models import caps
from pb_graph.models.caps import (
    CapPolicy,
    constructor_overrides,
    describe_effort,
    generic,
    policy_for,
)
from pb_graph.models.caps.policy import BY_CLASS, BY_NAME
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions
from tests.support.calls import call
from tests.support.chat_model import HTTPError, ScriptedChat
from tests.support.payloads import ELSEWHERE

KEY = SecretStr("sk-x")
LOCAL = "http://127.0.0.1:4321/v1"


class Tuned(ChatOpenAI):
    """A user's own kind of ChatOpenAI."""


class Gemini(ScriptedChat):
    max_output_tokens: int | None = None


class HuggingFace(ScriptedChat):
    max_new_tokens: int = 512


class Other(ScriptedChat):
    max_tokens: int = 1024


def azure() -> BaseChatModel:
    return AzureChatOpenAI(
        model="gpt-5-mini", azure_endpoint="https://gateway.example", api_version="1", api_key=KEY
    )


@pytest.mark.parametrize(
    ("model", "policy"),
    [
        (ChatOpenAI(model="m", api_key=KEY), caps.openai),
        (Tuned(model="m", api_key=KEY), caps.openai),
        (ChatOpenAI(model="m", api_key=KEY, base_url="https://eu.api.openai.com/v1"), caps.openai),
        (azure(), caps.openai),
        (ChatOpenAI(model="m", api_key=KEY, base_url=ELSEWHERE), caps.openai_compatible),
        (
            ChatOpenAI(model="m", api_key=KEY, base_url="https://host.example/api.openai.com"),
            caps.openai_compatible,
        ),
        (
            BaseChatOpenAI(model="m", api_key=KEY, base_url=ELSEWHERE),
            caps.openai_compatible,
        ),
        (ChatOpenAI(model="m", api_key=KEY, base_url="https://api.deepseek.com"), caps.deepseek),
        (ChatDeepSeek(model="deepseek-v4-pro", api_key=KEY), caps.deepseek),
        (
            ChatDeepSeek(model="qwen3", api_key=KEY, base_url=ELSEWHERE),
            caps.openai_compatible,
        ),
        (ChatAnthropic(model_name="claude-opus-5", api_key=KEY), caps.anthropic),
        (ChatGoogleGenerativeAI(model="gemini-2.5-pro", api_key=KEY), caps.gemini),
        (ChatOllama(model="qwen3"), caps.ollama),
        (ScriptedChat(), caps.generic),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_the_class_and_the_address_choose(model: BaseChatModel, policy: CapPolicy) -> None:
    assert policy_for(model) is policy


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_another_server_may_also_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, ELSEWHERE)
    assert policy_for(ChatOpenAI(model="m", api_key=KEY)) is caps.openai_compatible
    assert policy_for(ChatDeepSeek(model="m", api_key=KEY)) is caps.deepseek


def test_our_own_local_models_are_known_to_be_llama_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ChatOpenAI(model="m", api_key=KEY, base_url=LOCAL)
    assert policy_for(model) is caps.openai_compatible
    monkeypatch.setattr(local, "_servers", {Path("m.gguf"): SimpleNamespace(url=LOCAL)})
    assert policy_for(model) is caps.llama_cpp


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Gemini, "max_output_tokens"),
        (HuggingFace, "max_new_tokens"),
        (Other, "max_tokens"),
        (ScriptedChat, "max_tokens"),
    ],
)
def test_any_model_gets_the_cap_under_the_field_it_declares(
    kind: type[BaseChatModel], name: str
) -> None:
    assert generic(kind(), CallOptions(77, 9.0, {"type": "object"}, "off")) == {name: 77}


def test_a_foreign_policy_finds_the_model_as_the_caller_made_it() -> None:
    model = ChatOpenAI(model="m", api_key=KEY, base_url=ELSEWHERE, max_tokens=50)
    assert constructor_overrides(model, lambda _model, _limits: {}) == {}


def test_a_policy_names_the_models_that_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "langchain_other.ChatOther"
    monkeypatch.setitem(BY_CLASS, name, generic)
    kind = type("ChatOther", (ScriptedChat,), {"__module__": "langchain_other.chat"})

    @caps.policy(cls=name, overrides=lambda _model: {"own": None})
    def other(_model: BaseChatModel, given: CallOptions) -> dict[str, Any]:
        return {"cap": given.cap}

    try:
        assert policy_for(kind()) is other
        assert constructor_overrides(kind(), other) == {"own": None}
    finally:
        del BY_NAME["other"]


@pytest.mark.parametrize(
    ("model", "effort"),
    [
        (ChatOpenAI(model="gpt-5-mini", api_key=KEY), "reasoning_effort=minimal"),
        (ChatAnthropic(model_name="claude-opus-5", api_key=KEY), "effort=low"),
        (ChatGoogleGenerativeAI(model="gemini-2.5-flash", api_key=KEY), "thinking_budget=136"),
        (ChatDeepSeek(model="deepseek-v4-pro", api_key=KEY), "thinking=disabled"),
        (ChatOllama(model="qwen3"), "reasoning=False"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_effort_that_a_call_asks_for_is_told_with_its_reason(
    model: BaseChatModel, effort: str
) -> None:
    why = "136 of 200 tokens are left for thinking"
    bounded, free = CallOptions(200), CallOptions(200, thinking="free")
    choose = policy_for(model)
    assert describe_effort(choose(model, bounded), bounded) == f"{effort}: {why}"
    assert describe_effort(choose(model, free), free) is None


def test_a_field_of_the_schema_that_is_called_effort_asks_for_none() -> None:
    options = CallOptions(200, schema={"properties": {"effort": {"type": "string"}}})
    model = ChatOpenAI(model="m", api_key=KEY, base_url=ELSEWHERE)
    assert describe_effort(policy_for(model)(model, options), options) is None


def test_no_provider_is_imported_to_choose() -> None:
    code = """
import json, sys
from langchain_core.language_models import FakeListChatModel
from pb_graph.models.caps import policy_for
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions
model = FakeListChatModel(responses=["42"])
policy_for(model)(model, CallOptions(10, 1.0))
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)  # noqa: S603
    loaded: Any = set(json.loads(found.stdout))
    providers = {"langchain_openai", "langchain_anthropic", "langchain_google_genai"}
    sdks = {"langchain_ollama", "langchain_deepseek", "openai", "anthropic", "google", "ollama"}
    assert not loaded & (providers | sdks)


def test_a_refusal_is_final_if_the_policy_sends_no_schema() -> None:
    model = ScriptedChat(solve=HTTPError(400))
    with pytest.raises(ModelCallError):
        call(ChatClient(model), [HumanMessage("6 * 7?")], CallOptions(10, schema={}))
    assert len(model.calls) == 1
