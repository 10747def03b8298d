"""What would leave a chat model's client for its provider, without a network."""

from __future__ import annotations

import inspect
import json
from contextlib import suppress
from typing import Any

import anthropic
import httpx
import ollama
import openai
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import BaseChatOpenAI
from pydantic import SecretStr

from pb_graph.models.caps import CapPolicy, policy_for
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions

ELSEWHERE = "http://127.0.0.1:9/v1"
ASK: list[BaseMessage] = [HumanMessage("Hello?")]


def openai_request(
    limits: CallOptions,
    *,
    kind: type[BaseChatOpenAI] = ChatOpenAI,
    policy: CapPolicy | None = None,
    **options: Any,  # noqa: ANN401 -- of the model
) -> httpx.Request:
    """The HTTP request of a model that speaks OpenAI's protocol, for one call within limits."""
    requests: list[httpx.Request] = []

    def serve(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        raise httpx.ConnectError(str(request.url), request=request)

    usual: Any = {"model": "some-model", "api_key": SecretStr("sk-x"), "max_retries": 0}
    with httpx.Client(transport=httpx.MockTransport(serve)) as http:
        model = kind(http_client=http, **(usual | options))
        client = ChatClient(model, policy)
        with suppress(openai.APIConnectionError):
            client.model.invoke(ASK, **_arguments(model, client, limits, policy))
    return requests[-1]


def openai_body(limits: CallOptions, **options: Any) -> dict[str, Any]:  # noqa: ANN401
    """The JSON body of `openai_request`."""
    body: dict[str, Any] = json.loads(openai_request(limits, **options).content)
    return body


def anthropic_body(limits: CallOptions, **options: Any) -> dict[str, Any]:  # noqa: ANN401
    """What Anthropic's SDK is given, which must be what it takes."""
    model = ChatAnthropic(api_key=SecretStr("sk-x"), **options)
    client: Any = ChatClient(model)
    payload: dict[str, Any] = client.model._get_request_payload(
        ASK, **_arguments(model, client, limits)
    )
    resources = anthropic.resources
    taker = resources.beta.messages.Messages if "betas" in payload else resources.Messages
    inspect.signature(taker.create).bind(None, **payload)
    return payload


def gemini_config(limits: CallOptions, **options: Any) -> dict[str, Any]:  # noqa: ANN401
    """The configuration that Google's SDK is given, as it understands it."""
    model = ChatGoogleGenerativeAI(api_key=SecretStr("x"), **options)
    client: Any = ChatClient(model)
    request = client.model._prepare_request(ASK, **_arguments(model, client, limits))
    config: dict[str, Any] = request["config"].model_dump(exclude_none=True)
    return config


def ollama_params(limits: CallOptions, **options: Any) -> dict[str, Any]:  # noqa: ANN401
    """What Ollama's client is given, which must be what it takes."""
    model = ChatOllama(**options)
    client: Any = ChatClient(model)
    params: dict[str, Any] = client.model._chat_params(ASK, **_arguments(model, client, limits))
    inspect.signature(ollama.Client.chat).bind(None, **params)
    return params


def _arguments(
    model: BaseChatModel, client: ChatClient, limits: CallOptions, policy: CapPolicy | None = None
) -> dict[str, Any]:
    return (policy or policy_for(model))(client.model, limits)
