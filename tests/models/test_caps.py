"""A budget as it really leaves for each provider."""

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
from pb_graph.models.caps import (
    CapPolicy,
    effort_level,
    llama_cpp,
    policy_for,
    vllm,
)
from pb_graph.models.client import ChatClient, RetryPolicy
from pb_graph.models.options import (
    THINKING_TOKENS,
    CallOptions,
    Thinking,
    describe_effort,
    generic,
    least_cap,
)
from pb_graph.models.reply import BLOCKING, run_sync
from tests.support.chat_model import ScriptedChat
from tests.support.payloads import (
    ELSEWHERE,
    anthropic_body,
    gemini_config,
    ollama_params,
    openai_body,
    openai_request,
)

KEY = SecretStr("sk-x")
LOCAL = "http://127.0.0.1:4321/v1"
LIMITS = CallOptions(77, 9.0)
SCHEMA = {"type": "object", "properties": {"level": {"type": "integer"}}}
CONSTRAINED = CallOptions(77, 9.0, SCHEMA)


def beside_the_cap(body: dict[str, Any], cap: int, name: str = "max_tokens") -> dict[str, Any]:
    """Return what is sent beside the model, the messages and the cap, which always is."""
    assert body[name] == cap
    known = {"model", "messages", "stream", name}
    return {key: value for key, value in body.items() if key not in known}


def test_the_responses_api_takes_no_cap_below_sixteen() -> None:
    by_responses = ChatOpenAI(model="m", api_key=KEY, output_version="responses/v1")
    assert least_cap(by_responses) == 16
    assert least_cap(ChatOpenAI(model="m", api_key=KEY)) == 1


class TestWhichPolicy:
    @pytest.mark.parametrize(
        ("model", "policy"),
        [
            (ChatOpenAI(model="m", api_key=KEY), caps.openai),
            (ChatOpenAI(model="m", api_key=KEY, base_url=ELSEWHERE), caps.openai_compatible),
            (
                ChatOpenAI(model="m", api_key=KEY, base_url="https://api.deepseek.com"),
                caps.deepseek,
            ),
            (ChatDeepSeek(model="deepseek-v4-pro", api_key=KEY), caps.deepseek),
            (ChatAnthropic(model_name="claude-opus-5", api_key=KEY), caps.anthropic),
            (ChatGoogleGenerativeAI(model="gemini-3.5-flash", api_key=KEY), caps.gemini),
            (ChatOllama(model="qwen3"), caps.ollama),
            (ScriptedChat(), generic),
        ],
        ids=lambda value: getattr(value, "__name__", type(value).__name__),
    )
    def test_the_class_and_the_address_choose(
        self, model: BaseChatModel, policy: CapPolicy
    ) -> None:
        assert policy_for(model) is policy

    def test_azure_is_openai_at_any_address(self) -> None:
        model = AzureChatOpenAI(
            model="m", azure_endpoint="https://gateway.example", api_version="1", api_key=KEY
        )
        assert policy_for(model) is caps.openai

    def test_another_server_may_come_from_the_environment(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", ELSEWHERE)
        assert policy_for(ChatOpenAI(model="m", api_key=KEY)) is caps.openai_compatible

    def test_our_own_local_models_are_known_to_be_llama_cpp(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(local, "_servers", {Path("m.gguf"): SimpleNamespace(url=LOCAL)})
        assert policy_for(ChatOpenAI(model="m", api_key=KEY, base_url=LOCAL)) is caps.llama_cpp

    def test_a_graph_takes_a_policy_by_its_name(self) -> None:
        model = ScriptedChat(solve="42")
        graph = build_graph(model, cap_policy="generic", settings={"method": "vanilla"})
        assert graph.invoke({"question": "6 * 7?"})["answer"] == "42"
        with pytest.raises(InputError, match=r"'vlm'; available: .*did you mean 'vllm'"):
            build_graph(model, cap_policy="vlm")


class TestThinking:
    @pytest.mark.parametrize(("cap", "room"), [(64, 0), (65, 1), (200, 136), (8192, 7168)])
    def test_it_gets_the_cap_without_the_headroom_for_an_answer(self, cap: int, room: int) -> None:
        assert CallOptions(cap, 1.0).thinking_room == room

    @pytest.mark.parametrize(("cap", "level"), [(1364, "minimal"), (1365, "low"), (9215, "low")])
    def test_the_level_is_the_highest_that_fits(self, cap: int, level: str) -> None:
        levels = ["minimal", "low", "medium", "high"]
        assert effort_level(levels, CallOptions(cap, 1.0), default="high") == level
        assert effort_level(levels, CallOptions(cap, 1.0, thinking="free"), default="high") is None

    @given(st.integers(1, 200_000), st.sampled_from(["low", "medium", "high"]))
    def test_effort_is_never_raised(self, cap: int, default: str) -> None:
        level = effort_level(["low", "medium", "high"], CallOptions(cap, 1.0), default=default)
        assert level is None or THINKING_TOKENS[level] < THINKING_TOKENS[default]

    @pytest.mark.parametrize(
        ("model", "effort"),
        [
            (ChatOpenAI(model="gpt-5-mini", api_key=KEY), "reasoning_effort=minimal"),
            (ChatAnthropic(model_name="claude-opus-5", api_key=KEY), "effort=low"),
            (
                ChatGoogleGenerativeAI(model="gemini-3.5-flash", api_key=KEY),
                "thinking_level=minimal",
            ),
            (ChatDeepSeek(model="deepseek-v4-pro", api_key=KEY), "thinking=disabled"),
            (ChatOllama(model="qwen3"), "reasoning=False"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_the_effort_that_a_call_asks_for_is_told_with_its_reason(
        self, model: BaseChatModel, effort: str
    ) -> None:
        bounded, free = CallOptions(200), CallOptions(200, thinking="free")
        choose = policy_for(model)
        told = f"{effort}: 136 of 200 tokens are left for thinking"
        assert describe_effort(choose(model, bounded), bounded) == told
        assert describe_effort(choose(model, free), free) is None


class TestAnyModel:
    @pytest.mark.parametrize("name", ["max_output_tokens", "max_new_tokens", "max_tokens"])
    def test_it_gets_the_cap_under_the_field_it_declares(self, name: str) -> None:
        declared: Any = {"__annotations__": {name: int}, name: 512, "__module__": __name__}
        model = type("Model", (ScriptedChat,), declared)()
        assert generic(model, CONSTRAINED) == {name: 77}


class TestOpenAI:
    @pytest.mark.parametrize(
        ("options", "name"),
        [
            ({}, "max_completion_tokens"),
            ({"max_tokens": 5000}, "max_completion_tokens"),
            ({"use_responses_api": True}, "max_output_tokens"),
            ({"model": "gpt-5-mini", "base_url": ELSEWHERE}, "max_completion_tokens"),
            ({"base_url": ELSEWHERE}, "max_tokens"),
            ({"base_url": ELSEWHERE, "max_tokens": 5000}, "max_tokens"),
        ],
    )
    def test_the_cap_has_the_name_that_the_server_knows_and_no_other_beside_it(
        self, options: dict[str, Any], name: str
    ) -> None:
        body = openai_body(LIMITS, **options)
        names = {"max_tokens", "max_completion_tokens", "max_output_tokens"}
        assert {key: body[key] for key in names & body.keys()} == {name: 77}

    @pytest.mark.parametrize("thinking", ["free", "off"])
    def test_of_an_unknown_server_nothing_is_asked_but_the_cap(self, thinking: Thinking) -> None:
        body = openai_body(CallOptions(77, 9.0, thinking=thinking), base_url=ELSEWHERE)
        assert beside_the_cap(body, 77) == {}

    def test_the_callers_extra_body_stays(self) -> None:
        extra = {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 5}
        body = openai_body(CONSTRAINED, base_url=ELSEWHERE, extra_body=extra)
        assert beside_the_cap(body, 77).items() >= extra.items()

    def test_the_schema_is_the_response_format_of_chat_completions(self) -> None:
        body = openai_body(CONSTRAINED)
        schema = {"name": "reply", "schema": SCHEMA}
        assert body["response_format"] == {"type": "json_schema", "json_schema": schema}
        responses = openai_body(CONSTRAINED, use_responses_api=True)
        assert not {"text", "response_format"} & responses.keys()

    @pytest.mark.parametrize(("own", "seconds"), [({}, 9.0), ({"timeout": 3.0}, 3.0)])
    def test_the_timeout_is_ours_only_where_there_is_none(
        self, own: dict[str, Any], seconds: float
    ) -> None:
        request = openai_request(LIMITS, base_url=ELSEWHERE, **own)
        assert request.extensions["timeout"]["read"] == seconds

    @pytest.mark.parametrize(
        ("model", "cap", "level"),
        [
            ("gpt-5-mini", 200, "minimal"),
            ("gpt-5-mini", 2000, "low"),
            ("gpt-5-mini-2025-08-07", 200, "low"),
            ("gpt-5.1", 200, "none"),
            ("gpt-5.1", 2000, None),  # it may not think unasked
            ("gpt-5.5", 12_000, None),  # as much as by itself
            ("o3", 200, "low"),
            ("gpt-5-pro", 200, None),
            ("gpt-4o", 200, None),
        ],
    )
    def test_effort_is_what_fits_into_the_cap(
        self, model: str, cap: int, level: str | None
    ) -> None:
        body = openai_body(CallOptions(cap, 9.0), model=model)
        assert body.get("reasoning_effort") == level

    @pytest.mark.parametrize(
        ("own", "thinking", "sent"),
        [
            ({"reasoning_effort": "high"}, "bounded", {"reasoning_effort": "high"}),
            ({"reasoning": {"effort": "high"}}, "bounded", {"reasoning": {"effort": "high"}}),
            ({"reasoning_effort": "high"}, "off", {"reasoning_effort": "minimal"}),
            ({"reasoning": {"effort": "high"}}, "off", {"reasoning": {"effort": "minimal"}}),
            ({}, "low", {"reasoning_effort": "low"}),  # the paper's o4-mini
            ({"reasoning_effort": "high"}, "low", {"reasoning_effort": "high"}),
        ],
    )
    def test_the_callers_effort_stands_unless_there_is_to_be_no_thinking(
        self, own: dict[str, Any], thinking: Thinking, sent: dict[str, Any]
    ) -> None:
        body = openai_body(CallOptions(77, 9.0, thinking=thinking), model="gpt-5-mini", **own)
        assert body.items() >= sent.items()


class TestOwnServer:
    @pytest.mark.parametrize(
        ("policy", "cap", "thinking", "sent"),
        [
            (vllm, 200, "bounded", {"thinking_token_budget": 136}),
            (llama_cpp, 200, "bounded", {"reasoning_budget_tokens": 136}),
            (vllm, 200, "free", {}),
            (llama_cpp, 200, "free", {}),
            (vllm, 8192, "off", {"thinking_token_budget": 1}),
            (llama_cpp, 8192, "off", {"reasoning_budget_tokens": 0}),
        ],
    )
    def test_thinking_gets_a_budget_in_tokens(
        self, policy: CapPolicy, cap: int, thinking: Thinking, sent: dict[str, Any]
    ) -> None:
        off = {"chat_template_kwargs": {"enable_thinking": False}} if thinking == "off" else {}
        limits = CallOptions(cap, 9.0, thinking=thinking)
        body = openai_body(limits, policy=policy, base_url=ELSEWHERE, max_tokens=5000)
        assert beside_the_cap(body, cap) == sent | off

    @pytest.mark.parametrize(
        ("policy", "told"),
        [(vllm, {"continue_final_message": True, "add_generation_prompt": False}), (llama_cpp, {})],
    )
    def test_a_server_is_told_to_go_on_from_a_message_of_the_models(
        self, policy: CapPolicy, told: dict[str, bool]
    ) -> None:
        limits = CallOptions(100, 9.0, SCHEMA, thinking="free", continue_last=True)
        body = openai_body(limits, policy=policy, base_url=ELSEWHERE)
        schema = body.pop("response_format")["json_schema"]["schema"]
        assert (beside_the_cap(body, 100), schema) == (told, SCHEMA)


class TestDeepSeek:
    @pytest.mark.parametrize(
        ("cap", "thinking", "own", "sent"),
        [
            (200, "bounded", {}, {"thinking": {"type": "disabled"}}),
            (2000, "bounded", {}, {"reasoning_effort": "low"}),
            (30_000, "bounded", {}, {}),
            (200, "free", {}, {}),
            (8192, "off", {}, {"thinking": {"type": "disabled"}}),
            (200, "bounded", {"reasoning_effort": "max"}, {"reasoning_effort": "max"}),
        ],
    )
    def test_thinking_is_off_or_low_where_it_would_not_fit(
        self, cap: int, thinking: Thinking, own: dict[str, Any], sent: object
    ) -> None:
        limits = CallOptions(cap, 9.0, SCHEMA, thinking)
        body = openai_body(limits, kind=ChatDeepSeek, model="deepseek-v4-pro", **own)
        assert beside_the_cap(body, cap) == sent


LOW, MEDIUM = {"effort": "low"}, {"effort": "medium"}
OFF, ADAPTIVE = {"type": "disabled"}, {"type": "adaptive"}


def by_hand(tokens: int) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": tokens}


class TestClaude:
    @staticmethod
    def said(model: str, cap: int, mode: Thinking = "bounded", **own: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """Return the thinking and the output configuration that are sent."""
        body = anthropic_body(CallOptions(cap, 9.0, thinking=mode), model=model, **own)
        assert (body["max_tokens"], body["timeout"]) == (cap, 9.0)
        return body.get("thinking"), body.get("output_config")

    @pytest.mark.parametrize(
        ("model", "cap", "thinking", "output"),
        [
            ("claude-haiku-4-5", 200, None, None),  # thinks only when asked to
            ("claude-opus-4-5", 200, None, LOW),  # and knows effort
            ("claude-opus-5", 200, OFF, LOW),  # thinks unasked, and can be told not to
            ("claude-opus-5", 2000, None, LOW),
            ("claude-opus-5", 9500, None, MEDIUM),
            ("claude-sonnet-5-5", 200, {"type": "between_tools"}, LOW),
            ("claude-opus-5-5", 200, None, LOW),  # always thinks
            ("some-model", 200, None, None),
        ],
    )
    def test_each_generation_is_held_back_by_what_it_knows(
        self, model: str, cap: int, thinking: object, output: object
    ) -> None:
        assert self.said(model, cap) == (thinking, output)

    @pytest.mark.parametrize(
        ("own", "cap", "mode", "sent"),
        [
            (4000, 8000, "bounded", by_hand(4000)),
            (4000, 5000, "bounded", by_hand(3976)),
            (4000, 1300, "bounded", OFF),  # below the least that there is
            (8192, 8192, "free", by_hand(7168)),  # it has to be less than the cap
        ],
    )
    def test_a_thinking_budget_is_lowered_to_leave_room_for_an_answer(
        self, own: int, cap: int, mode: Thinking, sent: object
    ) -> None:
        assert self.said("claude-sonnet-4-5", cap, mode, thinking=by_hand(own))[0] == sent

    def test_what_the_caller_has_set_stands(self) -> None:
        assert self.said("claude-opus-4-6", 200, thinking=ADAPTIVE)[0] == ADAPTIVE
        high = {"effort": "high"}
        assert self.said("claude-opus-5", 200, output_config=high) == (None, high)

    @pytest.mark.parametrize(
        ("model", "own", "thinking", "output"),
        [
            ("claude-sonnet-4-5", {"thinking": by_hand(1024)}, OFF, None),
            ("claude-opus-4-6", {"thinking": ADAPTIVE}, OFF, LOW),
            ("claude-opus-5", {"thinking": ADAPTIVE, "effort": "max"}, OFF, LOW),
            ("claude-opus-5-5", {"output_config": {"effort": "max"}}, None, LOW),
        ],
    )
    def test_without_thinking_it_is_the_least_the_model_allows(
        self, model: str, own: dict[str, Any], thinking: object, output: object
    ) -> None:
        assert self.said(model, 8192, "off", **own) == (thinking, output)


class TestGemini:
    @pytest.mark.parametrize(
        ("model", "cap", "thinking", "own", "sent"),
        [
            ("gemini-3-flash-preview", 200, "bounded", {}, "MINIMAL"),
            ("gemini-3-flash-preview", 2000, "bounded", {}, "LOW"),
            ("gemini-3-flash-preview", 200, "free", {}, None),
            ("gemini-3-flash-preview", 200, "bounded", {"thinking_level": "high"}, "HIGH"),
            ("gemini-3-flash-preview", 8192, "off", {"thinking_level": "high"}, "MINIMAL"),
            ("gemini-3.1-flash-lite", 200, "bounded", {}, None),  # as much as by itself
            ("some-model", 200, "bounded", {}, None),
        ],
    )
    def test_the_level_is_lowered_to_what_fits(
        self, model: str, cap: int, thinking: Thinking, own: dict[str, Any], sent: str | None
    ) -> None:
        config = gemini_config(CallOptions(cap, 9.0, thinking=thinking), model=model, **own)
        assert config["max_output_tokens"] == cap
        assert config.get("thinking_config") == (sent and {"thinking_level": sent})

    @pytest.mark.parametrize(
        ("model", "cap", "own", "sent"),
        [
            ("gemini-3-flash-preview", 400, 100, 100),
            ("gemini-3-flash-preview", 400, 8000, 300),
            ("gemini-2.5-flash", 400, None, 0),
            ("gemini-2.5-flash", 4000, -1, 3000),
            ("gemini-2.5-pro", 400, None, 128),
            ("gemini-2.5-flash-lite", 400, 8000, 0),
        ],
    )
    def test_a_thinking_budget_is_sent_alone_and_fits(
        self, model: str, cap: int, own: int | None, sent: int
    ) -> None:
        config = gemini_config(CallOptions(cap), model=model, thinking_budget=own)
        assert config["thinking_config"] == {"thinking_budget": sent}


def test_bedrocks_older_class_takes_the_cap_of_the_call() -> None:
    bodies: list[dict[str, Any]] = []

    def invoke_model(**request: Any) -> Any:  # noqa: ANN401
        bodies.append(json.loads(request["body"]))
        raise ConnectionError

    double: Any = SimpleNamespace(invoke_model=invoke_model)
    model: Any = ChatBedrock(
        model="anthropic.claude-sonnet-4-5-v1:0",
        client=double,
        bedrock_client=double,
        region="us-east-1",
        max_tokens=9_999,
    )
    client = ChatClient(model, retry_policy=RetryPolicy(max_retries=0))
    with suppress(ModelCallError):
        run_sync(client.call([HumanMessage("?")], CallOptions(50), BLOCKING))
    assert [body["max_tokens"] for body in bodies] == [50]


class TestOllama:
    @pytest.mark.parametrize(
        ("cap", "thinking", "own", "sent"),
        [
            (200, "bounded", {}, False),
            (1365, "bounded", {}, None),
            (200, "bounded", {"reasoning": True}, True),
            (200, "bounded", {"model": "gpt-oss:20b"}, "low"),
            (200, "free", {}, None),
            (8192, "off", {"reasoning": True}, False),
            (8192, "off", {"model": "gpt-oss:20b", "reasoning": "high"}, "low"),
        ],
    )
    def test_thinking_is_switched_off_where_it_would_not_fit(
        self, cap: int, thinking: Thinking, own: dict[str, Any], sent: object
    ) -> None:
        options: dict[str, Any] = {"model": "qwen3", "temperature": 0.3, "num_predict": 5000} | own
        params = ollama_params(CallOptions(cap, 9.0, SCHEMA, thinking), **options)
        assert params["options"] == {"temperature": 0.3, "num_predict": cap}
        assert params["think"] == sent

    def test_all_options_that_its_chat_model_has_are_passed_on(self) -> None:
        own: Any = {"mirostat": 1, "num_ctx": 1, "stop": ["."], "tfs_z": 1, "top_p": 1, "seed": 1}
        collected: Any = ChatOllama(model="qwen3", num_predict=7, **own)._chat_params([])
        sent = caps.ollama(ChatOllama(model="qwen3", **own), CallOptions(7, 9.0))
        assert sent["options"] == collected["options"]
