"""A reply that goes round in circles is ended where its server stops writing when nobody reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.messages import HumanMessage

from pb_graph import Budget, Settings, build_graph
from pb_graph.budget import using
from pb_graph.budget.ledger import most_billed
from pb_graph.models.caps import CapPolicy, Limits, llama_cpp, sglang, vllm
from pb_graph.models.caps.compatible import openai_compatible
from pb_graph.models.client import ChatClient
from pb_graph.models.reply import Reply
from pb_graph.types import Purpose
from tests.support.endpoints import chat_to
from tests.support.fault_server import FaultServer, Request
from tests.support.promise_server import PromiseServer, promising

pytestmark = pytest.mark.integration

LOOP = "and so it goes on "
ENDLESS = LOOP * 2000
LIMITS = Limits(6000, 30.0, ends_repetition=True)
LEAST, MOST = 240 // len(LOOP) * 5, 240 // len(LOOP) * 5 + 40
"""Words after which it shows, and after which it must have been seen."""


def asked(server: FaultServer, policy: CapPolicy, limits: Limits = LIMITS, **model: Any) -> Reply:  # noqa: ANN401
    client = ChatClient(chat_to(server.url, **model), policy)
    return asyncio.run(client.acall([HumanMessage("Go on.")], limits, Purpose("answer")))


@pytest.fixture
def endless() -> Iterator[FaultServer]:
    with FaultServer(answer=ENDLESS, pause=1.0) as server:
        yield server


def test_the_server_stops_and_each_piece_that_came_is_charged(endless: FaultServer) -> None:
    reply = asked(endless, llama_cpp)
    assert reply.finish == "repetition"
    assert LEAST <= reply.tokens <= MOST
    assert reply.tokens == len(reply.text.split())
    assert not reply.charge["measured"]
    assert most_billed([reply.charge]) == LIMITS.cap
    assert endless.billed < 6000  # what is on its way when the stream is closed is written, too


def test_a_server_that_counts_along_is_believed(endless: FaultServer) -> None:
    endless.counts = "each"
    reply = asked(endless, sglang)
    assert reply.finish == "repetition"
    assert reply.charge["measured"]
    assert reply.tokens == most_billed([reply.charge]) == len(reply.text.split())
    (request,) = endless.requests
    assert request.body["stream_options"] == {
        "include_usage": True,
        "continuous_usage_stats": True,
    }


@pytest.mark.parametrize(
    ("policy", "limits"),
    [
        (openai_compatible, LIMITS),
        (vllm, LIMITS),
        (llama_cpp, Limits(6000, 30.0)),
        (sglang, Limits(6000, 30.0)),
    ],
)
def test_else_nothing_is_streamed(endless: FaultServer, policy: CapPolicy, limits: Limits) -> None:
    reply = asked(endless, policy, limits)
    assert (reply.finish, reply.tokens) == ("length", 6000)
    (request,) = endless.requests
    assert not request.body.get("stream")
    assert "stream_options" not in request.body


def test_vllm_ends_it_by_itself() -> None:
    def ended(reply: dict[str, Any]) -> dict[str, Any]:
        reply["choices"][0]["finish_reason"] = "repetition"
        return reply

    with FaultServer(answer=LOOP * 40, changed=ended) as server:
        reply = asked(server, vllm)
    assert reply.finish == "repetition"
    assert reply.charge["measured"]
    assert server.requests[0].body["repetition_detection"]["min_count"] == 4


def test_a_reply_that_langchain_may_have_cached_is_not_streamed(endless: FaultServer) -> None:
    set_llm_cache(InMemoryCache())
    try:
        assert [asked(endless, llama_cpp).finish for _ in range(2)] == ["length"] * 2
    finally:
        set_llm_cache(None)
    assert len(endless.requests) == 1
    assert asked(endless, llama_cpp).finish == "repetition"
    assert asked(endless, llama_cpp, cache=InMemoryCache()).finish == "length"


def test_a_server_that_refuses_to_stream_is_asked_without_from_then_on() -> None:
    with promising(PromiseServer(thinks=False, refuses=frozenset({"stream"}))) as server:
        client = ChatClient(chat_to(server.url), llama_cpp)
        for _ in range(2):
            assert client.call([HumanMessage("6 * 7?")], LIMITS, Purpose("answer")).text
    assert [bool(body.get("stream")) for body in server.bodies] == [True, False, False]


def test_a_server_that_cannot_end_it_is_asked_without_from_then_on() -> None:
    old = PromiseServer(thinks=False, refuses=frozenset({"repetition_detection"}))
    with promising(old) as server:
        client = ChatClient(chat_to(server.url), vllm)
        for _ in range(2):
            assert client.call([HumanMessage("6 * 7?")], LIMITS, Purpose("answer")).text
    assert ["repetition_detection" in body for body in server.bodies] == [True, False, False]


@pytest.mark.parametrize("strict", [False, True])
def test_an_answer_that_loops_is_asked_for_its_result_within_the_ceiling(
    endless: FaultServer, strict: bool
) -> None:
    def goes_on(request: Request) -> str:
        return ENDLESS if len(request.body["messages"]) == 2 else r"\boxed{42}"

    endless._text = goes_on  # type: ignore[method-assign]
    settings = Settings(method="global_budget", budget=2000, strict_ceiling=strict)
    graph = build_graph(chat_to(endless.url), settings=settings, cap_policy=llama_cpp)
    out = graph.invoke({"question": "6 * 7?"})
    said, result = out["answer"].split("\n\n")
    assert said in ENDLESS
    assert result == r"\boxed{42}"
    report = out["report"]
    assert report["usage"]["output_tokens"] <= MOST + 1
    assert report["most_billed"] <= report["ceiling"] == 2000
    first, last = endless.requests
    assert (first.cap, last.cap) == (2000 - settings.reserve, settings.reserve)
    assert last.body["messages"][-2]["content"] == LOOP.strip()


@pytest.mark.parametrize("strict", [False, True])
def test_a_shared_budget_counts_what_came_and_if_strict_all_that_may_have(
    endless: FaultServer, strict: bool
) -> None:
    budget = Budget(10_000)
    with using(budget):
        reply = asked(endless, llama_cpp, replace(LIMITS, strict=strict))
    assert reply.finish == "repetition"
    assert budget.spent == (LIMITS.cap if strict else reply.tokens)
