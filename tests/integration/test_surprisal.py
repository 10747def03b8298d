"""A reply that becomes too improbable is ended where its server tells that, and stops writing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.messages import HumanMessage

from pb_graph import Settings, build_graph
from pb_graph.budget.ledger import most_billed
from pb_graph.methods.auto import MATHEMATICS, AutoPolicy
from pb_graph.models.caps import CapPolicy, Limits, llama_cpp, vllm
from pb_graph.models.caps.compatible import openai_compatible
from pb_graph.models.client import ChatClient
from pb_graph.models.reply import Reply
from pb_graph.types import Purpose
from tests.support.endpoints import chat_to
from tests.support.fault_server import FaultServer, Request
from tests.support.promise_server import PromiseServer, promising

pytestmark = pytest.mark.integration

WANDERS = " ".join(f"but {number} may be" for number in range(1500))
HALF = 0.5
MOST = 58
"""Words, each as likely as not, that 40 nats are."""
LIMITS = Limits(3000, 30.0, surprisal=40.0)
GREEDY = {"temperature": 0}
FORMULA = "What is $6 \\cdot 7$?"
WORDS = "A box has 6 rows of 7 eggs. How many eggs is that?"


def asked(
    server: FaultServer,
    policy: CapPolicy = llama_cpp,
    limits: Limits = LIMITS,
    **model: Any,  # noqa: ANN401
) -> Reply:
    client = ChatClient(chat_to(server.url, **(GREEDY | model)), policy)
    return client.call([HumanMessage("Go on.")], limits, Purpose("answer"))


@pytest.fixture
def wandering() -> Iterator[FaultServer]:
    with FaultServer(answer=WANDERS, pause=0.3, chance=HALF) as server:
        yield server


def test_the_server_stops_and_what_came_is_charged(wandering: FaultServer) -> None:
    reply = asked(wandering)
    assert reply.finish == "surprisal"
    assert reply.tokens == len(reply.text.split()) == MOST
    assert WANDERS.startswith(reply.text)
    assert not reply.charge["measured"]
    assert most_billed([reply.charge]) == LIMITS.cap
    assert wandering.billed < 3000  # what is on its way when the stream is closed is written, too


def test_a_reply_that_was_left_does_not_show_that_probabilities_are_not_told(
    wandering: FaultServer,
) -> None:
    client = ChatClient(chat_to(wandering.url, **GREEDY), llama_cpp)
    for _ in range(2):
        left = client.call([HumanMessage("Go on.")], LIMITS, Purpose("answer"))
        assert left.finish == "surprisal"


@pytest.mark.parametrize(
    ("policy", "limits", "model"),
    [
        (openai_compatible, LIMITS, {}),
        (vllm, LIMITS, {}),
        (llama_cpp, Limits(3000, 30.0), {}),
        (llama_cpp, LIMITS, {"temperature": 0.7}),
        (llama_cpp, LIMITS, {"temperature": None}),
        (llama_cpp, LIMITS, {"cache": InMemoryCache()}),
    ],
)
def test_else_it_is_read_to_its_end(
    wandering: FaultServer, policy: CapPolicy, limits: Limits, model: dict[str, Any]
) -> None:
    reply = asked(wandering, policy, limits, **model)
    assert (reply.finish, reply.tokens) == ("length", 3000)
    (request,) = wandering.requests
    assert not request.body.get("stream")
    assert "logprobs" not in request.body


def test_what_the_model_is_sure_of_may_be_long_and_even_repeat_itself() -> None:
    with FaultServer(answer="and so it goes on " * 1000, chance=1.0) as sure:
        assert asked(sure).finish == "length"


@pytest.mark.parametrize(("bound", "finish"), [(0, "surprisal"), (0.7, "length")])
def test_a_bound_temperature_counts_more_than_the_models(
    wandering: FaultServer, bound: float, finish: str
) -> None:
    model = chat_to(wandering.url, temperature=0.7 - bound)
    client = ChatClient(model, llama_cpp, arguments={"temperature": bound})
    assert client.call([HumanMessage("Go on.")], LIMITS, Purpose("answer")).finish == finish


def test_a_server_that_keeps_probabilities_to_itself_is_not_asked_again() -> None:
    with FaultServer(answer=WANDERS) as silent:
        client = ChatClient(chat_to(silent.url, **GREEDY), llama_cpp)
        for _ in range(2):
            reply = client.call([HumanMessage("Go on.")], LIMITS, Purpose("answer"))
            assert (reply.finish, reply.tokens) == ("length", 3000)
    assert ["logprobs" in request.body for request in silent.requests] == [True, False]
    assert [bool(request.body.get("stream")) for request in silent.requests] == [True, False]


def test_a_server_that_refuses_to_tell_them_is_asked_without() -> None:
    old = PromiseServer(thinks=False, refuses=frozenset({"logprobs"}))
    with promising(old) as server:
        client = ChatClient(chat_to(server.url, **GREEDY), llama_cpp)
        for _ in range(2):
            assert client.call([HumanMessage("6 * 7?")], LIMITS, Purpose("answer")).text
    assert ["logprobs" in body for body in server.bodies] == [True, False, False]


def answered(server: FaultServer, question: str, **settings: Any) -> dict[str, Any]:  # noqa: ANN401
    """The report of a question whose first answer wanders."""

    def says(request: Request) -> str:
        begins = "</question>" in request.body["messages"][-1]["content"]
        return WANDERS if begins else r"\boxed{42}"

    server._text = says  # type: ignore[method-assign]
    model = chat_to(server.url, **GREEDY)
    graph = build_graph(model, settings=Settings(**settings), cap_policy=llama_cpp)
    report: dict[str, Any] = graph.invoke({"question": question})["report"]
    assert report["usage"]["output_tokens"] <= report["most_billed"] <= report["ceiling"]
    return report


@pytest.mark.parametrize("strict", [False, True])
def test_by_default_a_question_in_formulas_is_then_asked_for_its_result(
    wandering: FaultServer, strict: bool
) -> None:
    report = answered(wandering, FORMULA, strict_ceiling=strict)
    assert report["answer"].endswith("\n\n\\boxed{42}")
    assert report["finish"] == "forced"
    assert report["usage"]["output_tokens"] == math.ceil(AutoPolicy().surprisal / math.log(2)) + 1
    assert report["ceiling"] == MATHEMATICS
    first, last = wandering.requests
    assert (first.cap, last.cap) == (MATHEMATICS - 48, 48)


@pytest.mark.parametrize(
    ("question", "settings"),
    [
        (WORDS, {}),
        ("Tell the story of a fox and a crow.", {}),
        (FORMULA, {"budget": 600}),
        (FORMULA, {"enforcement": "cap"}),
        (FORMULA, {"auto": AutoPolicy(surprisal=0)}),
        (FORMULA, {"method": "by_kind", "budget": 600}),
    ],
)
def test_all_else_is_read_on(
    wandering: FaultServer, question: str, settings: dict[str, Any]
) -> None:
    report = answered(wandering, question, **settings)
    assert report["usage"]["output_tokens"] > 5 * MOST
