"""Whose connections a graph uses: in a second event loop, sync and async in turn."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph import Settings, build_graph
from pb_graph.local.server import LocalServer
from tests.support.fault_server import FaultServer
from tests.support.graphs import run

pytestmark = pytest.mark.integration


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def chat(server: FaultServer, **given: Any) -> ChatOpenAI:  # noqa: ANN401
    return ChatOpenAI(model="m", base_url=server.url, api_key=SecretStr("sk-test"), **given)


@pytest.mark.parametrize("ways", [["ainvoke"] * 3, ["invoke", "ainvoke"] * 2])
def test_a_further_event_loop_finds_no_dead_connection(
    server: FaultServer, ways: list[Any]
) -> None:
    settings = Settings(max_retries=0, method="global_budget")
    graph = build_graph(chat(server), settings=settings)
    reports = [run(graph, way=way)["report"] for way in ways]
    assert server.served == 2 * len(ways)
    assert server.billed == sum(report["usage"]["output_tokens"] for report in reports)
    assert not any(report["warnings"] for report in reports)


def test_closing_a_local_server_disconnects_its_clients() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        server = LocalServer("m", Path("m.gguf"), f"http://127.0.0.1:{address[1]}/v1", "key", None)
        with socket.create_connection(address, 5) as client, listening.accept()[0]:
            server.close()
            assert client.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, 5)
