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
from langchain_deepseek import ChatDeepSeek
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_ollama import ChatOllama
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import SecretStr

from pb_graph.local import server as local
from pb_graph.models import caps
from pb_graph.models.caps import (
    CapPolicy,
    describe_effort,
    generic,
    policy_for,
)
from pb_graph.models.options import CallOptions
from tests.support.chat_model import ScriptedChat
from tests.support.payloads import ELSEWHERE

KEY = SecretStr("sk-x")
LOCAL = "http://127.0.0.1:4321/v1"


class Gemini(ScriptedChat):
    max_output_tokens: int | None = None


class HuggingFace(ScriptedChat):
    max_new_tokens: int = 512


def azure() -> BaseChatModel:
    return AzureChatOpenAI(
        model="gpt-5-mini", azure_endpoint="https://gateway.example", api_version="1", api_key=KEY
    )


@pytest.mark.parametrize(
    ("model", "policy"),
    [
        (ChatOpenAI(model="m", api_key=KEY), caps.openai),
        (ChatOpenAI(model="m", api_key=KEY, base_url="https://eu.api.openai.com/v1"), caps.openai),
        (azure(), caps.openai),
        (ChatOpenAI(model="m", api_key=KEY, base_url=ELSEWHERE), caps.openai_compatible),
        (ChatOpenAI(model="m", api_key=KEY, base_url="https://api.deepseek.com"), caps.deepseek),
        (ChatDeepSeek(model="deepseek-v4-pro", api_key=KEY), caps.deepseek),
        (ChatAnthropic(model_name="claude-opus-5", api_key=KEY), caps.anthropic),
        (ChatGoogleGenerativeAI(model="gemini-2.5-pro", api_key=KEY), caps.gemini),
        (ChatOllama(model="qwen3"), caps.ollama),
        (ScriptedChat(), caps.generic),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_the_class_and_the_address_choose(model: BaseChatModel, policy: CapPolicy) -> None:
    assert policy_for(model) is policy


def test_another_server_may_also_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", ELSEWHERE)
    assert policy_for(ChatOpenAI(model="m", api_key=KEY)) is caps.openai_compatible


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
        (ScriptedChat, "max_tokens"),
    ],
)
def test_any_model_gets_the_cap_under_the_field_it_declares(
    kind: type[BaseChatModel], name: str
) -> None:
    assert generic(kind(), CallOptions(77, 9.0, {"type": "object"}, "off")) == {name: 77}


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
