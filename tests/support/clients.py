"""Clients of models and of our endpoint: on loopback, or of a provider that is asked nothing."""
# ruff: noqa: ANN401 -- models and settings of any kind

from __future__ import annotations

import inspect
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anthropic
import httpx
import ollama
import openai
import uvicorn
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import BaseChatOpenAI
from pydantic import SecretStr

from pb_graph import Settings, build_graph
from pb_graph.models.caps import CapPolicy, policy_for
from pb_graph.models.client import ChatClient, RetryPolicy
from pb_graph.models.options import CallOptions
from pb_graph.serve.app import Endpoint
from tests.support.fault_server import FaultServer


def chat_to(url: str, **given: Any) -> ChatOpenAI:
    """Return a real ChatOpenAI that leaves no connection open for the next test."""
    alone = openai.DefaultHttpxClient(headers={"Connection": "close"})
    fields: dict[str, Any] = {"base_url": url, "api_key": SecretStr("sk-test")} | given
    return ChatOpenAI(model="m", http_client=alone, **fields)


def client_to(server: FaultServer) -> ChatClient:
    """Return a client of a scripted server that waits for no retry."""
    model = chat_to(server.url, max_retries=0)
    return ChatClient(model, retry_policy=RetryPolicy(1, initial_interval=0.01))


@contextmanager
def endpoint_of(model: Any, *, api_key: str | None = None, **settings: Any) -> Iterator[str]:
    """Serve a model for as long as the context lasts.

    Yields:
        Base of the API.
    """
    endpoint = Endpoint(build_graph(model, settings=Settings(**settings)), api_key)
    config = uvicorn.Config(endpoint.app(), port=0, log_level="error", ws="none", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.should_exit = True
        thread.join()


ELSEWHERE = "http://127.0.0.1:9/v1"
ASK: list[BaseMessage] = [HumanMessage("Hello?")]


def at_a_server(name: str, **options: Any) -> ChatOpenAI:
    """Return a model of OpenAI's protocol, at an address that is not OpenAI's if none is given."""
    given: dict[str, Any] = {"base_url": ELSEWHERE, "api_key": SecretStr("any")} | options
    return ChatOpenAI(model=name, **given)


def over(answer: Callable[[httpx.Request], httpx.Response]) -> dict[str, Any]:
    """Return fields of a model of OpenAI's protocol whose requests this answers, all unsent."""
    transport = httpx.MockTransport(answer)
    return {
        "http_client": httpx.Client(transport=transport),
        "http_async_client": httpx.AsyncClient(transport=transport),
        "api_key": SecretStr("sk-x"),
    }


def completion(
    text: str | None, finish: str = "stop", tokens: int = 2, **other: Any
) -> httpx.Response:
    """Return a completion of OpenAI's protocol."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens}
    whole = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
    return httpx.Response(200, json=whole | {"choices": [choice], "usage": usage} | other)


def openai_request(
    limits: CallOptions,
    *,
    kind: type[BaseChatOpenAI] = ChatOpenAI,
    policy: CapPolicy | None = None,
    **options: Any,
) -> httpx.Request:
    """The HTTP request of a model that speaks OpenAI's protocol, for one call within limits."""
    requests: list[httpx.Request] = []

    def serve(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        raise httpx.ConnectError(str(request.url), request=request)

    made = kind(**{"model": "some-model", "max_retries": 0, **over(serve), **options})
    model, arguments = _called(made, limits, policy)
    with suppress(openai.APIConnectionError):
        model.invoke(ASK, **arguments)
    return requests[-1]


def openai_body(limits: CallOptions, **options: Any) -> dict[str, Any]:
    """The JSON body of `openai_request`."""
    body: dict[str, Any] = json.loads(openai_request(limits, **options).content)
    return body


def anthropic_body(limits: CallOptions, **options: Any) -> dict[str, Any]:
    """What Anthropic's SDK is given, which must be what it takes."""
    model, arguments = _called(ChatAnthropic(api_key=SecretStr("sk-x"), **options), limits)
    payload: dict[str, Any] = model._get_request_payload(ASK, **arguments)
    resources = anthropic.resources
    taker = resources.beta.messages.Messages if "betas" in payload else resources.Messages
    inspect.signature(taker.create).bind(None, **payload)
    return payload


def gemini_config(limits: CallOptions, **options: Any) -> dict[str, Any]:
    """The configuration that Google's SDK is given, as it understands it."""
    model, arguments = _called(ChatGoogleGenerativeAI(api_key=SecretStr("x"), **options), limits)
    request = model._prepare_request(ASK, **arguments)
    config: dict[str, Any] = request["config"].model_dump(exclude_none=True)
    return config


def ollama_params(limits: CallOptions, **options: Any) -> dict[str, Any]:
    """What Ollama's client is given, which must be what it takes."""
    model, arguments = _called(ChatOllama(**options), limits)
    params: dict[str, Any] = model._chat_params(ASK, **arguments)
    inspect.signature(ollama.Client.chat).bind(None, **params)
    return params


def _called(
    model: BaseChatModel, limits: CallOptions, policy: CapPolicy | None = None
) -> tuple[Any, dict[str, Any]]:
    """Return the client's copy of a model, and the arguments of one call within limits."""
    copy = ChatClient(model, policy).model
    return copy, (policy or policy_for(model))(copy, limits)
