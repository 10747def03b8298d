"""Whose connections a graph uses: in a second event loop, sync and async in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph import Settings, build_graph
from pb_graph.models.chat_models import LoopConnections
from tests.support.fault_server import FaultServer
from tests.support.graphs import QUESTION

pytestmark = pytest.mark.integration


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def chat(server: FaultServer, **given: Any) -> ChatOpenAI:  # noqa: ANN401
    return ChatOpenAI(model="m", base_url=server.url, api_key=SecretStr("sk-test"), **given)


def graph_to(server: FaultServer) -> Any:  # noqa: ANN401
    return build_graph(chat(server), settings=Settings(max_retries=0, method="global_budget"))


def test_a_second_event_loop_finds_no_dead_connection(server: FaultServer) -> None:
    graph = graph_to(server)
    reports = [asyncio.run(graph.ainvoke(QUESTION))["report"] for _ in range(3)]
    assert server.served == 6
    assert server.billed == sum(report["usage"]["output_tokens"] for report in reports)
    assert not any(report["warnings"] for report in reports)


def test_nor_do_sync_and_async_runs_in_turn(server: FaultServer) -> None:
    graph = graph_to(server)
    for _ in range(2):
        assert graph.invoke(QUESTION)["report"]["warnings"] == []
        assert asyncio.run(graph.ainvoke(QUESTION))["report"]["warnings"] == []
    assert server.served == 8


async def test_within_one_event_loop_connections_are_kept(server: FaultServer) -> None:
    connections = LoopConnections(chat(server), chat(server))
    first, second = await connections.in_running_loop()
    again = await connections.in_running_loop()
    assert again[0] is first
    assert first.root_async_client._client is second.root_async_client._client  # type: ignore[attr-defined]


def test_event_loops_that_are_gone_are_forgotten(server: FaultServer) -> None:
    connections = LoopConnections(chat(server))

    async def used() -> Any:  # noqa: ANN401
        (model,) = await connections.in_running_loop()
        await model.ainvoke("?")
        return model

    models = [asyncio.run(used()) for _ in range(3)]
    assert len(connections._of_loop) == 1
    assert all(model.root_async_client.is_closed() for model in models)


async def test_a_callers_own_http_client_is_used_as_it_is(server: FaultServer) -> None:
    async with httpx.AsyncClient() as own:
        model = chat(server, http_async_client=own)
        assert not LoopConnections.are_shared(model)
        assert LoopConnections.are_shared(chat(server))
