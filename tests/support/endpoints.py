"""The endpoint of ``pb-graph serve`` on loopback, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import uvicorn
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph import Settings, build_graph
from pb_graph.models.caps import CapPolicy
from pb_graph.models.client import ChatClient, RetryPolicy
from pb_graph.serve.app import Endpoint
from tests.support.fault_server import FaultServer


def chat_to(url: str, **given: Any) -> ChatOpenAI:  # noqa: ANN401 -- fields of it
    """Return a real ChatOpenAI that leaves no connection open for the next test."""
    alone = openai.DefaultHttpxClient(headers={"Connection": "close"})
    fields: dict[str, Any] = {"base_url": url, "api_key": SecretStr("sk-test")} | given
    return ChatOpenAI(model="m", http_client=alone, **fields)


def client_to(server: FaultServer, policy: CapPolicy | None = None) -> ChatClient:
    """Return a client of a scripted server that waits for no retry."""
    model = chat_to(server.url, max_retries=0)
    return ChatClient(model, policy, RetryPolicy(1, initial_interval=0.01))


@contextmanager
def endpoint_of(
    model: Any,  # noqa: ANN401 -- what build_graph takes
    *,
    api_key: str | None = None,
    prices: Any = "auto",  # noqa: ANN401 -- as in Budget
    **settings: Any,  # noqa: ANN401
) -> Iterator[str]:
    """Serve a model for as long as the context lasts.

    Yields:
        Base of the API.
    """
    base = Settings(**settings)
    graph = build_graph(model, settings=base)
    endpoint = Endpoint(graph, api_key, prices)
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
