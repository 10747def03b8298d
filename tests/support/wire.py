"""The classes of chat models that are driven against `StrictServer`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import openai
from langchain_anthropic import ChatAnthropic
from langchain_aws import ChatBedrockConverse
from langchain_core.language_models import BaseChatModel
from langchain_deepseek import ChatDeepSeek
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_ollama import ChatOllama
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import SecretStr

from tests.support.strict_server import StrictServer

KEY = SecretStr("sk-test")
TRAP = {"max_tokens": 9_999}  # merged last by the SDKs
_CHAT = ("stop", "function_call"), ("content_filter",)
_BROKEN = ("length", "model_length", "insufficient_system_resource", "error", "")
_COUNTED, _ODD = (
    ("last", "every", "twice", "beside"),
    ("missing", "null", "text", "fraction", "nan", "zero"),
)


@dataclass(frozen=True)
class Row:
    """A class of chat models with a server, and what the server is made to do.

    Attributes:
        name: The row's name in the table.
        dialect: The server's.
        make: Makes the model, for the URL of the server.
        cap: The cap's field in the body.
        complete: Reasons that end a complete reply.
        filtered: Reasons of content filters.
        unfinished: All other reasons; "" is a stream or reply without one.
        counted: Shapes of usage that are counted to the token.
        odd: Shapes of usage that count for no less than what was written.
        policy: The cap policy of the graph; None for the one that is chosen by the model.
    """

    name: str
    dialect: str
    make: Callable[[StrictServer], BaseChatModel]
    cap: str
    complete: tuple[str, ...] = _CHAT[0]
    filtered: tuple[str, ...] = _CHAT[1]
    unfinished: tuple[str, ...] = _BROKEN
    counted: tuple[str, ...] = _COUNTED
    odd: tuple[str, ...] = _ODD
    policy: str | None = None


def _openai(name: str = "m", **options: Any) -> Callable[[StrictServer], BaseChatModel]:  # noqa: ANN401
    given: dict[str, Any] = {"max_tokens": 9_999, "extra_body": TRAP} | options
    return lambda server: ChatOpenAI(model=name, base_url=f"{server.url}/v1", api_key=KEY, **given)


def _azure(server: StrictServer) -> BaseChatModel:
    return AzureChatOpenAI(
        model="gpt-5-nano",
        azure_endpoint=server.url,
        api_version="1",
        api_key=KEY,
        max_tokens=9_999,
        extra_body=TRAP,
    )


def _deepseek(server: StrictServer) -> BaseChatModel:
    # The policy is chosen by the address, so the server is reached as a proxy for it.
    return ChatDeepSeek(
        model="deepseek-v4",
        max_tokens=9_999,
        base_url="http://api.deepseek.com/v1",
        api_key=KEY,
        model_kwargs={"max_completion_tokens": 9_999},
        http_client=openai.DefaultHttpxClient(proxy=server.url),
        http_async_client=openai.DefaultAsyncHttpxClient(proxy=server.url),
    )


def _gemini(name: str) -> Callable[[StrictServer], BaseChatModel]:
    return lambda server: ChatGoogleGenerativeAI(
        model=name, base_url=server.url, api_key=KEY, max_output_tokens=9_999
    )


def _bedrock(server: StrictServer) -> BaseChatModel:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 4_000}}
    return ChatBedrockConverse(
        model="anthropic.claude-sonnet-4-5-v1:0",
        client=server,
        bedrock_client=server,
        region_name="us-east-1",
        max_tokens=9_999,
        additional_model_request_fields=thinking | {"max_tokens": 9_999},
    )


_GEMINI: dict[str, Any] = {
    "cap": "maxOutputTokens",
    "complete": ("STOP",),
    "filtered": ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
    "unfinished": ("MAX_TOKENS", "LANGUAGE", "OTHER", "MALFORMED_FUNCTION_CALL", ""),
    "counted": ("last",),
    "odd": ("missing",),
}
_RESPONSES: dict[str, Any] = {
    "cap": "max_output_tokens",
    "complete": ("completed",),
    "filtered": ("content_filter",),
    "unfinished": ("max_output_tokens",),
    "counted": ("last",),
    "odd": ("null",),
}
_CLAUDE: dict[str, Any] = {
    "cap": "max_tokens",
    "complete": ("end_turn", "stop_sequence"),
    "filtered": ("refusal",),
    "unfinished": ("max_tokens", "model_context_window_exceeded", "pause_turn", ""),
    "counted": ("last", "twice"),
    "odd": ("missing",),
}
_CONVERSE: dict[str, Any] = {
    "cap": "maxTokens",
    "complete": ("end_turn", "stop_sequence"),
    "filtered": ("guardrail_intervened", "content_filtered"),
    "unfinished": ("max_tokens", "model_context_window_exceeded", "malformed_model_output", ""),
    "counted": ("last",),
    "odd": (),
}
_OLLAMA: dict[str, Any] = {
    "cap": "num_predict",
    "complete": ("stop",),
    "filtered": (),
    "unfinished": ("length", "unload", ""),
    "counted": ("last", "lone"),
    "odd": ("missing",),
}
ROWS = (
    Row("ChatOpenAI, OpenAI's models", "openai", _openai("gpt-5-mini"), "max_completion_tokens"),
    Row("AzureChatOpenAI", "openai", _azure, "max_completion_tokens"),
    Row(
        "ChatOpenAI, Responses API",
        "responses",
        _openai("gpt-5-mini", use_responses_api=True),
        **_RESPONSES,
    ),
    Row("ChatOpenAI, a server that takes no `stream_options`", "strict", _openai(), "max_tokens"),
    Row("ChatOpenAI, `vllm`", "vllm", _openai(), "max_tokens", policy="vllm"),
    Row("ChatOpenAI, `llama_cpp`", "llama_cpp", _openai(), "max_tokens", policy="llama_cpp"),
    Row("ChatDeepSeek", "deepseek", _deepseek, "max_tokens"),
    Row(
        "ChatAnthropic",
        "anthropic",
        lambda server: ChatAnthropic(
            model_name="claude-sonnet-4-6",
            max_tokens_to_sample=9_999,
            base_url=server.url,
            api_key=KEY,
            model_kwargs={"extra_body": TRAP},
        ),
        **_CLAUDE,
    ),
    Row("ChatGoogleGenerativeAI, levels", "gemini", _gemini("gemini-3.5-flash"), **_GEMINI),
    Row("ChatGoogleGenerativeAI, Gemini 2.5", "gemini", _gemini("gemini-2.5-flash"), **_GEMINI),
    Row(
        "ChatOllama",
        "ollama",
        lambda server: ChatOllama(model="m", base_url=server.url, num_predict=9_999),
        **_OLLAMA,
    ),
    Row("ChatBedrockConverse", "bedrock", _bedrock, **_CONVERSE),
)
