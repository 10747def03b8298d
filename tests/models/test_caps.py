"""A budget as it really leaves for each provider."""
# ruff: noqa: ANN401 -- settings of models of any class

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_anthropic import ChatAnthropic
from langchain_aws import ChatBedrock
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_deepseek import ChatDeepSeek
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_ollama import ChatOllama
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import SecretStr

from pb_graph import InputError, build_graph
from pb_graph.errors import ModelCallError
from pb_graph.local import server as local
from pb_graph.models import caps
from pb_graph.models.caps import CapPolicy, _effort_level, policy_for
from pb_graph.models.client import ChatClient, RetryPolicy
from pb_graph.models.options import (
    THINKING_TOKENS,
    CallOptions,
    answers_in,
    caps_in,
    copy_for_calls,
    describe_effort,
    generic,
    is_cap,
    least_cap,
    without_caps,
)
from pb_graph.models.reply import BLOCKING, run_sync
from tests.support.chat_model import ScriptedChat
from tests.support.clients import (
    ELSEWHERE,
    anthropic_body,
    gemini_config,
    ollama_params,
    openai_body,
    openai_request,
)

KEY = SecretStr("sk-x")
LOCAL = "http://127.0.0.1:4321/v1"
SCHEMA = {"type": "object", "properties": {"level": {"type": "integer"}}}
DEEPSEEK = "https://api.deepseek.com"
AZURE: Any = {"azure_endpoint": "https://gateway.example", "api_version": "1"}
VLLM: Any = {"policy": caps.vllm, "base_url": ELSEWHERE}
LLAMA: Any = {"policy": caps.llama_cpp, "base_url": ELSEWHERE}


@pytest.mark.parametrize(
    ("model", "policy"),
    [
        (ChatOpenAI(model="m", api_key=KEY), caps.openai),
        (AzureChatOpenAI(model="m", api_key=KEY, **AZURE), caps.openai),
        (ChatOpenAI(model="m", api_key=KEY, base_url=ELSEWHERE), caps.openai_compatible),
        (ChatOpenAI(model="m", api_key=KEY, base_url=LOCAL), caps.llama_cpp),
        (ChatOpenAI(model="m", api_key=KEY, base_url=DEEPSEEK), caps.deepseek),
        (ChatDeepSeek(model="deepseek-v4-pro", api_key=KEY), caps.deepseek),
        (ChatAnthropic(model_name="claude-opus-5", api_key=KEY), caps.anthropic),
        (ChatGoogleGenerativeAI(model="gemini-3.5-flash", api_key=KEY), caps.gemini),
        (ChatOllama(model="qwen3"), caps.ollama),
        (ScriptedChat(), generic),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_the_class_and_the_address_choose_the_policy(
    model: BaseChatModel, policy: CapPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_servers", {Path("m.gguf"): SimpleNamespace(url=LOCAL)})
    assert policy_for(model) is policy


def test_another_server_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", ELSEWHERE)
    assert policy_for(ChatOpenAI(model="m", api_key=KEY)) is caps.openai_compatible


def test_a_graph_takes_a_policy_by_its_name() -> None:
    model = ScriptedChat(solve="42")
    graph = build_graph(model, cap_policy="generic", settings={"method": "vanilla"})
    assert graph.invoke({"question": "6 * 7?"})["answer"] == "42"
    with pytest.raises(InputError, match=r"'vlm'; available: .*did you mean 'vllm'"):
        build_graph(model, cap_policy="vlm")


@pytest.mark.parametrize(
    "name", ["max_output_tokens", "max_new_tokens", "max_tokens", "num_predict", "maxTokenCount"]
)
def test_a_cap_is_known_by_its_name_wherever_it_is_merged(name: str) -> None:
    declared: Any = {"__annotations__": {name: int}, name: 512, "__module__": __name__}
    assert generic(type("Model", (ScriptedChat,), declared)(), CallOptions(77)) == {name: 77}
    for fields in ({name: 9}, {"default_body": {name: 9}}, {"extra": {"google": {name: 9}}}):
        assert caps_in(fields) == [9]
        assert caps_in(without_caps(fields)) == []
    kept = {"response_format": {"schema": {name: 9}}, "thinking": {name: 9}, "temperature": 1}
    assert without_caps(kept) == kept


@pytest.mark.parametrize("name", ["n", "best_of", "candidate_count", "num_generations"])
def test_several_answers_are_one(name: str) -> None:
    declared: Any = {"__annotations__": {name: int}, "__module__": __name__}
    model = type("Model", (ScriptedChat,), declared)(**{name: 4})
    assert answers_in({"extra_body": {name: 4}}) == answers_in(vars(model)) == 4
    assert getattr(copy_for_calls(model), name) == 1
    assert without_caps({"extra_body": {name: 4, "x": 1}}) == {"extra_body": {"x": 1}}


class TestThinking:
    @pytest.mark.parametrize(("cap", "room"), [(64, 0), (65, 1), (200, 136), (8192, 7168)])
    def test_it_gets_the_cap_without_the_headroom_for_an_answer(self, cap: int, room: int) -> None:
        assert CallOptions(cap).thinking_room == room

    @pytest.mark.parametrize(("cap", "level"), [(1364, "minimal"), (1365, "low"), (9215, "low")])
    def test_the_level_is_the_highest_that_fits(self, cap: int, level: str) -> None:
        levels = ["minimal", "low", "medium", "high"]
        assert _effort_level(CallOptions(cap), levels, "high") == level
        assert _effort_level(CallOptions(cap, thinking="free"), levels, "high") is None

    @given(st.integers(1, 200_000), st.sampled_from(["low", "medium", "high"]))
    def test_effort_is_never_raised(self, cap: int, default: str) -> None:
        level = _effort_level(CallOptions(cap), ["low", "medium", "high"], default)
        assert level is None or THINKING_TOKENS[level] < THINKING_TOKENS[default]

    def test_the_effort_that_a_call_asks_for_is_told_with_its_reason(self) -> None:
        model = ChatAnthropic(model_name="claude-opus-5", api_key=KEY)
        bounded, free = CallOptions(200), CallOptions(200, thinking="free")
        told = "effort=low: 136 of 200 tokens are left for thinking"
        assert describe_effort(caps.anthropic(model, bounded), bounded) == told
        assert describe_effort(caps.anthropic(model, free), free) is None


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"max_tokens": 5000}, "max_completion_tokens"),
        ({"model": "openai/gpt-5-mini", "base_url": ELSEWHERE}, "max_completion_tokens"),
        ({"base_url": ELSEWHERE, "max_tokens": 5000}, "max_tokens"),
    ],
)
def test_openais_cap_has_the_name_that_the_server_knows_and_no_other_beside_it(
    options: dict[str, Any], name: str
) -> None:
    body = openai_body(CallOptions(77), **options)
    assert caps_in(body) == [body[name]] == [77]
    responses = ChatOpenAI(model="m", api_key=KEY, output_version="responses/v1")
    assert (least_cap(responses), least_cap(ChatOpenAI(model="m", api_key=KEY))) == (16, 1)


def test_the_callers_extra_body_stays_and_the_schema_is_the_response_format() -> None:
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 5}
    constrained = CallOptions(77, schema=SCHEMA)
    body = openai_body(constrained, base_url=ELSEWHERE, extra_body=extra)
    assert body.items() >= extra.items()
    schema = {"name": "reply", "schema": SCHEMA}
    assert body["response_format"] == {"type": "json_schema", "json_schema": schema}
    responses = openai_body(constrained, use_responses_api=True)
    assert not {"text", "response_format"} & responses.keys()


@pytest.mark.parametrize(("own", "seconds"), [({}, 9.0), ({"timeout": 3.0}, 3.0)])
def test_the_timeout_is_ours_only_where_there_is_none(own: dict[str, Any], seconds: float) -> None:
    request = openai_request(CallOptions(77, 9.0), base_url=ELSEWHERE, **own)
    assert request.extensions["timeout"]["read"] == seconds


def effort(level: str) -> dict[str, str]:
    return {"reasoning_effort": level}


def told(**body: Any) -> dict[str, Any]:
    return {"base_url": ELSEWHERE, "extra_body": body}


def by_hand(tokens: int) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": tokens}


DISABLED: Any = {"type": "disabled"}
OFF: Any = {"chat_template_kwargs": {"enable_thinking": False}}
UNREASONED: Any = {"reasoning": {"enabled": False}}


@pytest.mark.parametrize(
    ("model", "cap", "thinking", "own", "sent"),
    [
        ("gpt-5-mini-2025-08-07", 200, "bounded", {}, effort("low")),
        ("gpt-5.1", 2000, "bounded", {}, {}),  # it may not think unasked
        ("gpt-5.5", 12_000, "bounded", {}, {}),  # as much as by itself
        ("gpt-5-pro", 200, "bounded", {}, {}),
        ("gpt-4o", 200, "bounded", {}, {}),
        ("gpt-6.1-sol", 200, "bounded", {}, effort("low")),  # its profile lists no levels
        # The caller's effort stands unless there is to be no thinking.
        ("gpt-5-mini", 77, "bounded", effort("high"), effort("high")),
        ("gpt-5-mini", 77, "off", effort("high"), effort("minimal")),
        ("gpt-5-mini", 77, "low", {}, effort("low")),  # the paper's o4-mini
        ("gpt-5-mini", 77, "low", effort("high"), effort("high")),
        # Of an unknown server nothing is asked but the cap.
        ("m", 77, "free", {"base_url": ELSEWHERE}, {}),
        ("m", 77, "off", {"base_url": ELSEWHERE}, {}),
        ("m", 200, "bounded", VLLM, {"thinking_token_budget": 136}),
        ("m", 200, "bounded", LLAMA, {"reasoning_budget_tokens": 136}),
        ("m", 200, "free", VLLM, {}),
        ("m", 200, "free", LLAMA, {}),
        ("m", 8192, "off", VLLM, {"thinking_token_budget": 1} | OFF),
        ("m", 8192, "off", LLAMA, {"reasoning_budget_tokens": 0} | OFF),
        ("m", 200, "bounded", told(thinking_budget=4000), {"thinking_budget": 136}),
        ("m", 200, "bounded", told(thinking=by_hand(4000)), {"thinking": DISABLED}),
        ("m", 2000, "bounded", told(thinking=by_hand(4000)), {"thinking": by_hand(1500)}),
        ("m", 200, "bounded", told(reasoning={"max_tokens": 4000}), UNREASONED),
        ("deepseek-v4", 30_000, "bounded", {}, {}),
        ("deepseek-v4", 200, "free", {}, {}),
        ("deepseek-v4", 8192, "off", {}, {"thinking": {"type": "disabled"}}),
        ("deepseek-v4", 200, "bounded", effort("max"), effort("max")),
    ],
)
def test_thinking_fits_into_the_cap_by_openais_protocol(
    model: str, cap: int, thinking: Any, own: dict[str, Any], sent: object
) -> None:
    kind = ChatDeepSeek if model.startswith("deepseek") else ChatOpenAI
    body = openai_body(CallOptions(cap, thinking=thinking), kind=kind, model=model, **own)
    assert caps_in(body) == [cap]
    known = {"model", "messages", "input", "stream", *filter(is_cap, body)}
    assert {name: body[name] for name in body.keys() - known} == sent


def test_an_effort_of_the_responses_api_is_replaced_where_it_stands() -> None:
    for mode, level in (("bounded", "high"), ("off", "minimal")):
        options: Any = {"model": "gpt-5-mini", "reasoning": {"effort": "high"}}
        body = openai_body(CallOptions(77, thinking=mode), **options)  # type: ignore[arg-type]
        assert body["reasoning"] == {"effort": level}


LOW, MEDIUM, ADAPTIVE = {"effort": "low"}, {"effort": "medium"}, {"type": "adaptive"}


@pytest.mark.parametrize(
    ("model", "cap", "mode", "own", "thinking", "output"),
    [
        ("claude-haiku-4-5", 200, "bounded", {}, None, None),  # thinks only when asked to
        ("claude-opus-5", 200, "bounded", {}, DISABLED, LOW),  # thinks unless told not to
        ("claude-opus-5", 2000, "bounded", {}, None, LOW),
        ("claude-opus-5", 9500, "bounded", {}, None, MEDIUM),
        ("claude-sonnet-5-5", 200, "bounded", {}, {"type": "between_tools"}, LOW),
        ("claude-opus-5-5", 200, "bounded", {}, None, LOW),  # always thinks
        ("some-model", 200, "bounded", {}, None, None),
        # A thinking budget is lowered to leave room for an answer.
        ("claude-sonnet-4-5", 8000, "bounded", {"thinking": by_hand(4000)}, by_hand(4000), None),
        ("claude-sonnet-4-5", 5000, "bounded", {"thinking": by_hand(4000)}, by_hand(3976), None),
        ("claude-sonnet-4-5", 1300, "bounded", {"thinking": by_hand(4000)}, DISABLED, None),
        ("claude-sonnet-4-5", 8192, "free", {"thinking": by_hand(8192)}, by_hand(7168), None),
        # What the caller has set stands, unless there is to be no thinking.
        ("claude-opus-4-6", 200, "bounded", {"thinking": ADAPTIVE}, ADAPTIVE, LOW),
        ("claude-opus-5", 200, "bounded", {"output_config": MEDIUM}, None, MEDIUM),
        ("claude-sonnet-4-5", 8192, "off", {"thinking": by_hand(1024)}, DISABLED, None),
        ("claude-opus-4-6", 8192, "off", {"thinking": ADAPTIVE}, DISABLED, LOW),
        ("claude-opus-5", 8192, "off", {"thinking": ADAPTIVE, "effort": "max"}, DISABLED, LOW),
        ("claude-opus-5-5", 8192, "off", {"output_config": {"effort": "max"}}, None, LOW),
    ],
)
def test_claudes_thinking_fits_into_the_cap(  # noqa: PLR0913, PLR0917 -- a row of the table
    model: str, cap: int, mode: Any, own: dict[str, Any], thinking: object, output: object
) -> None:
    body = anthropic_body(CallOptions(cap, 9.0, thinking=mode), model=model, **own)
    assert (body["max_tokens"], body["timeout"]) == (cap, 9.0)
    assert (body.get("thinking"), body.get("output_config")) == (thinking, output)


@pytest.mark.parametrize(
    ("model", "cap", "thinking", "own", "sent"),
    [
        ("gemini-3-flash-preview", 200, "bounded", {}, "MINIMAL"),
        ("gemini-3-flash-preview", 2000, "bounded", {}, "LOW"),
        ("gemini-3-flash-preview", 200, "free", {}, None),
        ("gemini-3-flash-preview", 200, "bounded", {"thinking_level": "high"}, "HIGH"),
        ("gemini-3-flash-preview", 8192, "off", {"thinking_level": "high"}, "MINIMAL"),
        ("gemini-3.1-flash-lite", 200, "bounded", {}, None),  # as much as by itself
        ("gemini-3.8-flash", 200, "bounded", {}, "LOW"),  # its profile lists no levels
        ("some-model", 200, "bounded", {}, None),
        # A thinking budget is sent alone, and fits.
        ("gemini-3-flash-preview", 400, "bounded", {"thinking_budget": 100}, 100),
        ("gemini-3-flash-preview", 400, "bounded", {"thinking_budget": 8000}, 300),
        ("gemini-2.5-flash", 400, "bounded", {}, 0),
        ("gemini-2.5-flash", 4000, "bounded", {"thinking_budget": -1}, 3000),
        ("gemini-2.5-pro", 400, "bounded", {}, 128),
        ("gemini-2.5-flash-lite", 400, "bounded", {"thinking_budget": 8000}, 0),
    ],
)
def test_geminis_level_or_budget_is_lowered_to_what_fits(
    model: str, cap: int, thinking: Any, own: dict[str, Any], sent: str | int | None
) -> None:
    config = gemini_config(CallOptions(cap, thinking=thinking), model=model, **own)
    assert config["max_output_tokens"] == cap
    name = "thinking_budget" if isinstance(sent, int) else "thinking_level"
    assert config.get("thinking_config") == (None if sent is None else {name: sent})


def test_bedrocks_older_class_takes_the_cap_of_the_call() -> None:
    bodies: list[dict[str, Any]] = []

    def invoke_model(**request: Any) -> Any:
        bodies.append(json.loads(request["body"]))
        raise ConnectionError

    double: Any = SimpleNamespace(invoke_model=invoke_model)
    name, region = "anthropic.claude-sonnet-4-5-v1:0", "us-east-1"
    clients: Any = {"client": double, "bedrock_client": double}
    model: Any = ChatBedrock(model=name, region=region, max_tokens=9_999, **clients)
    client = ChatClient(model, retry_policy=RetryPolicy(max_retries=0))
    with suppress(ModelCallError):
        run_sync(client.call([HumanMessage("?")], CallOptions(50), BLOCKING))
    assert [body["max_tokens"] for body in bodies] == [50]


@pytest.mark.parametrize(
    ("cap", "thinking", "own", "sent"),
    [
        (1365, "bounded", {}, None),
        (200, "bounded", {"reasoning": True}, True),
        (200, "bounded", {"model": "gpt-oss:20b"}, "low"),
        (200, "free", {}, None),
        (8192, "off", {"reasoning": True}, False),
        (8192, "off", {"model": "gpt-oss:20b", "reasoning": "high"}, "low"),
    ],
)
def test_ollamas_options_stay_and_thinking_is_off_where_it_would_not_fit(
    cap: int, thinking: Any, own: dict[str, Any], sent: object
) -> None:
    kept: Any = {"temperature": 0.3, "mirostat": 1, "stop": ["."], "top_p": 0.5, "num_ctx": 9}
    options: Any = {"model": "qwen3", "num_predict": 5000} | kept | own
    params = ollama_params(CallOptions(cap, thinking=thinking), **options)
    assert params["options"] == kept | {"num_predict": cap}
    assert params["think"] == sent
