"""Whose connections a graph uses: in a second event loop, sync and async in turn, after a fork."""

from __future__ import annotations

import asyncio
import importlib
import os
import ssl
import time
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import httpx
import openai
import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph import Settings, build_graph
from pb_graph.models.connections import Connections, _certificates
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


async def test_a_loop_that_comes_while_ended_ones_are_looked_for_is_no_fault(
    server: FaultServer,
) -> None:
    connections = Connections(chat(server))

    class Ended:
        """A loop of another thread; one more is there by the time that it is looked at."""

        def is_closed(self) -> bool:
            connections._of_loop[0, Ended()] = ((), None)  # type: ignore[index]
            return True

    connections._of_loop[0, Ended()] = ((), None)  # type: ignore[index]
    assert await connections.awaited()


async def test_within_one_event_loop_connections_are_kept(server: FaultServer) -> None:
    connections = Connections(chat(server), chat(server))
    first, second = await connections.awaited()
    again = await connections.awaited()
    assert again[0] is first
    assert first.root_async_client._client is second.root_async_client._client  # type: ignore[attr-defined]


def test_event_loops_that_are_gone_are_forgotten(server: FaultServer) -> None:
    connections = Connections(chat(server))

    async def used() -> Any:  # noqa: ANN401
        (model,) = await connections.awaited()
        await model.ainvoke("?")
        return model

    models = [asyncio.run(used()) for _ in range(3)]
    assert len(connections._of_loop) == 1
    assert all(model.root_async_client.is_closed() for model in models)


async def test_a_callers_own_http_client_is_used_as_it_is(server: FaultServer) -> None:
    async with httpx.AsyncClient() as own:
        model = chat(server, http_async_client=own)
        assert await Connections(model).awaited() == (model,)


def test_they_trust_whom_the_sdk_trusts(monkeypatch: pytest.MonkeyPatch) -> None:
    library = importlib.import_module(openai.DefaultHttpxClient.__mro__[1].__module__)
    trusted = ssl.create_default_context()
    monkeypatch.setattr(library, "create_ssl_context", lambda: trusted)
    assert _certificates.__wrapped__() is trusted


@pytest.mark.parametrize("way", ["ainvoke", "astream"])
async def test_a_call_can_be_cancelled_at_any_moment_and_no_connection_is_lost(
    server: FaultServer, way: str
) -> None:
    connections = Connections(chat(server, max_retries=0))
    (model,) = await connections.awaited()

    async def called() -> None:
        if way == "ainvoke":
            await model.ainvoke("?")
        else:
            async for _ in model.astream("?"):
                pass

    await called()
    begun = time.perf_counter()
    await called()
    whole = time.perf_counter() - begun
    ends = [await cancelled_after(whole * part / 100, called()) for part in range(150)]
    assert True in ends
    await called()
    for _ in range(40):  # until the server has seen which ones were closed
        if len(server._open) > 1:
            await asyncio.sleep(0.05)
    assert len(server._open) <= 1


def test_of_a_stream_that_is_read_no_further_nothing_is_left_for_the_end_of_the_loop(
    server: FaultServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = "on and on " * 50
    connections = Connections(chat(server))

    async def left() -> None:
        (model,) = await connections.awaited()
        chunks: Any = model.astream("?")
        async with aclosing(chunks):
            await anext(chunks)
        await asyncio.sleep(0.05)

    asyncio.run(left())
    assert [record.getMessage() for record in caplog.records] == []


async def cancelled_after(seconds: float, call: Any) -> bool:  # noqa: ANN401
    """Cancel a call after a while, in which the loop stands still; whether it was cancelled."""
    task = asyncio.create_task(call)
    await asyncio.sleep(seconds / 2)
    time.sleep(seconds / 2)  # noqa: ASYNC251 -- what arrives meanwhile, this loop has not seen
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    return isinstance(outcome, asyncio.CancelledError)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own(server: FaultServer) -> None:
    connections = Connections(chat(server))
    (model,) = connections.blocking()
    assert connections.blocking() == (model,)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        (own,) = connections.blocking()
        differs = own.root_client._client is not model.root_client._client  # type: ignore[attr-defined]
        os.write(writing, b"own" if differs and connections.blocking()[0] is own else b"shared")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"own"
