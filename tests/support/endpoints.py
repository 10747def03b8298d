"""The endpoint of ``pb-graph serve`` on loopback, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph import Settings, build_graph
from pb_graph.models.caps import CapPolicy
from pb_graph.models.client import ChatClient
from pb_graph.models.retry import RetryPolicy
from pb_graph.serve.app import Endpoint
from pb_graph.serve.names import model_names
from tests.support.fault_server import FaultServer


def client_to(server: FaultServer, policy: CapPolicy | None = None) -> ChatClient:
    """A client for a scripted server that keeps no connection open, and waits for no one."""
    alone: dict[str, Any] = {"limits": httpx.Limits(max_keepalive_connections=0)}
    model = ChatOpenAI(
        model="m",
        base_url=server.url,
        api_key=SecretStr("x"),
        max_retries=0,
        http_client=httpx.Client(**alone),
        http_async_client=httpx.AsyncClient(**alone),
    )
    return ChatClient(model, policy, RetryPolicy(1, initial_interval=0.01))


@contextmanager
def endpoint_of(
    model: Any,  # noqa: ANN401 -- what build_graph takes
    *,
    api_key: str | None = None,
    most: int | None = None,
    **settings: Any,  # noqa: ANN401
) -> Iterator[str]:
    """Serve a model for as long as the context lasts.

    Yields:
        Base of the API.
    """
    base = Settings(**settings)
    endpoint = Endpoint(build_graph(model, settings=base), model_names(), api_key, most)
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
