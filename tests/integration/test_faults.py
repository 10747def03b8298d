"""What the graph does when the server fails: a real ChatOpenAI, a real server on loopback."""

from __future__ import annotations

import asyncio
import time
from typing import Any, get_args

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.messages import HumanMessage
from openai import AuthenticationError

from pb_graph import NoAnswerError, Settings, TokenBudgetMiddleware, build_graph
from pb_graph.errors import ModelCallError
from pb_graph.models.client import ChatClient, RetryPolicy
from pb_graph.models.options import CallOptions
from tests.support.agents import ASK, Pens
from tests.support.calls import call
from tests.support.endpoints import chat_to
from tests.support.fault_server import (
    Fault,
    FaultServer,
    always,
    now_and_then,
)
from tests.support.graphs import QUESTION, Way, checked, codes, run

pytestmark = pytest.mark.integration

MAYBE_BILLED: tuple[Fault, ...] = ("reset_before", "stall", "no_choices", "half_stream")
REFUSED_FOR_GOOD: dict[Fault, str] = {
    "context_too_long": "context",
    "bad_key": "key variable",
    "unknown_model": "model's name",
    "no_credit": "top it up",
}
TIMEOUTS = {"stall": 1.0}
"""Seconds that a call may take, where the server says nothing."""
both_ways = pytest.mark.parametrize("way", get_args(Way))


def graph_to(
    server: FaultServer,
    retries: int = 3,
    timeout: float = 60.0,
    *,
    planner_apart: bool = False,
    **settings: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Return a graph that waits for no longer than a test should."""
    policy = RetryPolicy(retries, initial_interval=0.01)
    clients = [
        ChatClient(chat_to(server.url, max_retries=0, timeout=timeout), retry_policy=policy)
        for _ in range(1 + planner_apart)
    ]
    return build_graph(
        clients[0], planner=clients[-1], settings=Settings(**({"plan_from": 1} | settings))
    )


def report_of(graph: Any, way: Way = "invoke") -> dict[str, Any]:  # noqa: ANN401
    """Return the report of a question, also that of an error."""
    try:
        return checked(run(graph, QUESTION, way)["report"])
    except NoAnswerError as error:
        return checked(error.report) | {"error": str(error)}


def vanilla(server: FaultServer, way: Way = "invoke", **options: Any) -> dict[str, Any]:  # noqa: ANN401
    return report_of(graph_to(server, method="vanilla", **options), way)


@both_ways
@pytest.mark.parametrize("fault", MAYBE_BILLED)
def test_an_attempt_that_may_have_been_billed_stays_reserved(fault: Fault, way: Way) -> None:
    with FaultServer(always(fault)) as server:
        report = vanilla(server, way, timeout=TIMEOUTS.get(fault, 60.0))
    assert server.served == 1
    assert "unknown_bill" in codes(report)
    assert server.billed <= report["most_billed"] <= report["limit"]


@pytest.mark.parametrize("fault", REFUSED_FOR_GOOD)
def test_a_refusal_for_good_is_not_asked_again(fault: Fault) -> None:
    with FaultServer(always(fault)) as server:
        report = vanilla(server)
    assert server.served == 1
    assert REFUSED_FOR_GOOD[fault] in report["error"]
    assert report["usage"]["calls"] == 0


@pytest.mark.parametrize("fault", ["bad_key", "unknown_model"])
def test_a_model_that_refuses_the_plan_is_not_asked_again(fault: Fault) -> None:
    with FaultServer(always(fault)) as server:
        graph = graph_to(server, method="plan_and_budget", plan_from=1)
        reports = [report_of(graph), report_of(graph)]  # the next question asks anew
        assert server.served == len(reports)
    assert reports[1]["error"].count("(HTTP 40") == 1


def test_an_error_inside_an_agent_names_the_address_and_the_remedy() -> None:
    with FaultServer(always("bad_key")) as server:
        agent = create_agent(chat_to(server.url), middleware=[TokenBudgetMiddleware(500)])
        with pytest.raises(AuthenticationError, match="The server refused the API key") as raised:
            agent.invoke(ASK)
    assert server.url in str(raised.value)


@pytest.mark.parametrize("own", [{}, {"timeout": 0.5}])
def test_a_server_that_drips_is_left_at_the_time_limit(own: dict[str, Any]) -> None:
    options, started = CallOptions(50, timeout=120 if own else 0.5), time.monotonic()
    with FaultServer(always("drip"), stall=3) as server:
        client = ChatClient(chat_to(server.url, **own), retry_policy=RetryPolicy(0))
        with pytest.raises(ModelCallError, match=r"Settings\.timeout"):
            call(client, [HumanMessage("?")], options)
        assert time.monotonic() - started < 2.5


def test_an_error_says_why_every_reply_was_empty() -> None:
    with FaultServer(always("empty_at_cap")) as server:
        report = report_of(graph_to(server, method="global_budget", budget=200))
    assert "raise `budget`" in report["error"]


def test_an_agents_typed_answer_that_openais_client_cannot_read_is_asked_for_again() -> None:
    said = iter([('{"number": 2', "length"), ('{"number": 21}', "stop")])

    def changed(reply: dict[str, Any]) -> dict[str, Any]:
        content, finish = next(said)
        reply["choices"][0]["message"]["content"] = content
        reply["choices"][0]["finish_reason"] = finish
        return reply

    with FaultServer(changed=changed) as server:
        agent: Any = create_agent(
            chat_to(server.url),
            response_format=ProviderStrategy(Pens),
            middleware=[TokenBudgetMiddleware(100)],
        )
        out = agent.invoke(ASK)
    assert out["structured_response"] == Pens(number=21)
    assert out["tokens_spent"] == server.billed <= 100


@pytest.mark.parametrize("fault", ["unavailable", "stall", "half_stream", "no_usage"])
def test_a_planner_that_fails_does_not_keep_the_question_from_being_answered(fault: Fault) -> None:
    with FaultServer(lambda request: fault if request.plans else None) as server:
        limit = TIMEOUTS.get(fault, 60.0)
        report = report_of(graph_to(server, 1, limit, execution="stepwise", planner_apart=True))
    assert report["answer"] == "Final answer: 42"
    assert bool(report["warnings"]) is (fault != "no_usage")


@pytest.mark.parametrize(("reserve", "seed"), [(0, 0), (48, 1)])
async def test_the_limit_holds_and_the_account_is_true_however_much_goes_wrong(
    reserve: int, seed: int
) -> None:
    faults = tuple(fault for fault in get_args(Fault) if fault != "stall")
    rough = now_and_then(0.3, seed, faults)
    with FaultServer(rough, answer="so it goes on and on " * 100) as server:
        graph = graph_to(server, execution="stepwise", reserve=reserve, budget=240)

        async def one() -> dict[str, Any]:
            try:
                return checked((await graph.ainvoke(QUESTION))["report"])
            except NoAnswerError as error:
                return checked(error.report)

        reports = await asyncio.gather(*(one() for _ in range(10)))
    for report in reports:
        assert report["usage"]["output_tokens"] <= report["limit"]
        assert sum(step["tokens"] or 0 for step in report["steps"]) <= report["budget"]
    assert any(report["warnings"] for report in reports)


def test_a_model_is_tried_as_often_as_the_settings_say_and_not_by_its_sdk() -> None:
    with FaultServer(always("rate_limit")) as server:
        model = chat_to(server.url, max_retries=4)
        report = report_of(build_graph(model, settings=Settings(method="vanilla", max_retries=1)))
    assert "failed, 2 times," in report["error"]
    assert server.served == 2
