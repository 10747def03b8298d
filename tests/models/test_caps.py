"""A budget as it really leaves the process: what the body of a request says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from langchain_openai.chat_models.base import BaseChatOpenAI
from pydantic import SecretStr

from pb_graph.models.caps import Limits, openai_compatible, plain, policy_for
from tests.support.chat_model import ScriptedChat

CAP, TIMEOUT = 77, 9.0
LIMITS = Limits(CAP, TIMEOUT)
SCHEMA = {"type": "object", "properties": {"level": {"type": "integer"}}}
ELSEWHERE = "http://127.0.0.1:9/v1"
REPLY = {
    "id": "1",
    "object": "chat.completion",
    "created": 0,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "42"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}

Send = Callable[..., dict[str, Any]]


@pytest.fixture
def send() -> Send:
    """Calls a real client within limits, and returns the request as a server would see it."""
    requests: list[httpx.Request] = []

    def serve(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json=REPLY)

    def sent(kind: type[BaseChatOpenAI], limits: Limits = LIMITS, **options: Any) -> dict[str, Any]:  # noqa: ANN401
        usual: Any = {"model": "some-model", "api_key": SecretStr("sk-x"), "max_retries": 0}
        with httpx.Client(transport=httpx.MockTransport(serve)) as client:
            model = kind(http_client=client, **(usual | options))
            assert policy_for(model) is openai_compatible
            model.invoke("Hello?", **openai_compatible(model, limits))
        body: dict[str, Any] = json.loads(requests[-1].content)
        return body | {"_seconds": requests[-1].extensions["timeout"]["read"]}

    return sent


CAP_NAMES = {"max_tokens", "max_completion_tokens", "max_output_tokens"}


def caps(body: dict[str, Any]) -> dict[str, int]:
    return {name: body[name] for name in CAP_NAMES & set(body)}


@pytest.mark.parametrize(
    "base", [None, "https://api.openai.com/v1", "https://eu.api.openai.com/v1"], ids=str
)
def test_openai_gets_the_new_name(send: Send, base: str | None) -> None:
    assert caps(send(ChatOpenAI, base_url=base)) == {"max_completion_tokens": CAP}


def test_azure_gets_what_langchain_sends_it(send: Send) -> None:
    azure = {"azure_endpoint": "https://x.openai.azure.com", "api_version": "1"}
    assert list(caps(send(AzureChatOpenAI, **azure)).values()) == [CAP]


def test_any_other_server_gets_the_old_name_only(send: Send) -> None:
    assert caps(send(ChatOpenAI, base_url=ELSEWHERE)) == {"max_tokens": CAP}


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_another_server_may_also_come_from_the_environment(
    send: Send, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, ELSEWHERE)
    assert caps(send(ChatOpenAI)) == {"max_tokens": CAP}


@pytest.mark.parametrize("name", ["gpt-5-mini", "gpt-4o", "o3-mini", "chatgpt-4o-latest"])
def test_openais_models_behind_a_gateway_get_the_new_name(send: Send, name: str) -> None:
    body = send(ChatOpenAI, model=name, base_url=ELSEWHERE)
    assert caps(body) == {"max_completion_tokens": CAP}


@pytest.mark.parametrize("name", ["gpt-oss-20b", "openchat", "olmo-2", "qwen3", "o"])
def test_open_models_elsewhere_get_the_old_name(send: Send, name: str) -> None:
    assert caps(send(ChatOpenAI, model=name, base_url=ELSEWHERE)) == {"max_tokens": CAP}


def test_classes_for_other_servers_send_the_old_name(send: Send) -> None:
    assert caps(send(BaseChatOpenAI, base_url=ELSEWHERE)) == {"max_tokens": CAP}


def test_a_cap_of_the_callers_own_never_widens_ours(send: Send) -> None:
    assert caps(send(ChatOpenAI, max_tokens=5000)) == {"max_completion_tokens": CAP}
    elsewhere = caps(send(ChatOpenAI, max_tokens=5000, base_url=ELSEWHERE))
    assert set(elsewhere.values()) == {CAP}
    assert "max_tokens" in elsewhere


def test_the_callers_extra_body_stays(send: Send) -> None:
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 5}
    body = send(ChatOpenAI, Limits(CAP, TIMEOUT, SCHEMA), base_url=ELSEWHERE, extra_body=extra)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["top_k"] == 5
    assert body["max_tokens"] == CAP
    assert extra == {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 5}


@pytest.mark.parametrize("base", [None, ELSEWHERE])
def test_the_schema_is_the_response_format(send: Send, base: str | None) -> None:
    body = send(ChatOpenAI, Limits(CAP, TIMEOUT, SCHEMA), base_url=base)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": SCHEMA},
    }
    assert set(caps(body).values()) == {CAP}


def test_without_a_schema_the_form_is_free(send: Send) -> None:
    assert "response_format" not in send(ChatOpenAI, base_url=ELSEWHERE)


def test_the_timeout_is_ours_only_when_there_was_none(send: Send) -> None:
    assert send(ChatOpenAI, base_url=ELSEWHERE)["_seconds"] == TIMEOUT
    assert send(ChatOpenAI, base_url=ELSEWHERE, timeout=3.0)["_seconds"] == 3.0


def test_the_responses_api_has_a_name_of_its_own() -> None:
    model = ChatOpenAI(
        model="m", api_key=SecretStr("sk-x"), base_url=ELSEWHERE, use_responses_api=True
    )
    payload = model._get_request_payload("Hello?", **openai_compatible(model, LIMITS))
    assert caps(payload | (payload.get("extra_body") or {})) == {"max_output_tokens": CAP}


class Gemini(ScriptedChat):
    max_output_tokens: int | None = None


class Ollama(ScriptedChat):
    num_predict: int | None = None


class HuggingFace(ScriptedChat):
    max_new_tokens: int = 512


class Anthropic(ScriptedChat):
    max_tokens: int = 1024


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Gemini, "max_output_tokens"),
        (Ollama, "num_predict"),
        (HuggingFace, "max_new_tokens"),
        (Anthropic, "max_tokens"),
        (ScriptedChat, "max_tokens"),
    ],
)
def test_other_models_get_the_cap_under_the_field_they_declare(
    kind: type[BaseChatModel], name: str
) -> None:
    model = kind()
    assert policy_for(model) is plain
    assert plain(model, Limits(CAP, TIMEOUT, SCHEMA)) == {name: CAP}
