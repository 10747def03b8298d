"""What the graph does when the server misbehaves: a real ChatOpenAI, a real server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, get_args

import pytest

from pb_graph import NoAnswerError, Settings, build_graph
from pb_graph.models.client import ChatClient, RetryPolicy
from tests.support.endpoints import chat_to
from tests.support.fault_server import (
    CHAIN,
    TRANSIENT,
    Fault,
    FaultServer,
    Request,
    always,
    in_turn,
    now_and_then,
)
from tests.support.graphs import QUESTION, Way, checked, codes, run

pytestmark = pytest.mark.integration

IMPATIENT, PATIENT = 1.0, 60.0
"""Seconds that a call may take: short only where the server says nothing, and is waited out."""
REFUSED_FOR_GOOD: dict[Fault, str] = {
    "context_too_long": "context",
    "bad_key": "key variable",
    "forbidden": "permissions",
    "unknown_model": "model's name",
    "no_credit": "top it up",
}
FREE: tuple[Fault, ...] = ("rate_limit", "rate_limit_with_wait", "server_error", "unavailable")

Solve = Callable[..., dict[str, Any]]


def graph_to(
    server: FaultServer,
    retries: int = 3,
    timeout: float = PATIENT,
    *,
    planner_apart: bool = False,
    **settings: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """A graph that waits for no longer than a test should."""
    policy = RetryPolicy(retries, initial_interval=0.01)
    clients = [
        ChatClient(chat_to(server.url, max_retries=0, timeout=timeout), retry_policy=policy)
        for _ in range(1 + planner_apart)
    ]
    return build_graph(
        clients[0], planner=clients[-1], settings=Settings(**({"plan_from": 1} | settings))
    )


@pytest.fixture(params=get_args(Way))
def solve(request: pytest.FixtureRequest) -> Solve:
    """Answers the question, sync or async; what an error reports counts, too."""
    way = request.param
    stalls = request.node.callspec.params.get("fault") == "stall"

    def solved(server: FaultServer, retries: int = 3, **settings: Any) -> dict[str, Any]:  # noqa: ANN401
        try:
            graph = graph_to(server, retries, IMPATIENT if stalls else PATIENT, **settings)
            out = run(graph, QUESTION, way)
        except NoAnswerError as error:
            return checked(error.report) | {"error": str(error)}
        return checked(out["report"])

    return solved


@pytest.mark.parametrize("fault", FREE)
def test_a_passing_refusal_costs_a_second_attempt_and_not_the_answer(
    fault: Fault, solve: Solve
) -> None:
    with FaultServer(in_turn(fault)) as server:
        report = solve(server, method="vanilla")
    assert report["answer"] == "Final answer: 42"
    assert server.served == 2
    assert (report["usage"]["output_tokens"], report["usage"]["calls"]) == (3, 1)
    assert report["warnings"] == []


@pytest.mark.parametrize("fault", FREE)
def test_a_refusal_that_does_not_pass_ends_after_three_more_attempts(
    fault: Fault, solve: Solve
) -> None:
    with FaultServer(always(fault)) as server:
        report = solve(server, method="vanilla")
    assert server.served == 4
    assert "failed, 4 times," in report["error"]
    assert (report["answer"], report["usage"]["output_tokens"]) == ("", 0)


@pytest.mark.parametrize("fault", [fault for fault in TRANSIENT if fault not in FREE])
def test_an_attempt_that_may_have_been_billed_stays_reserved(fault: Fault, solve: Solve) -> None:
    with FaultServer(always(fault)) as server:
        report = solve(server, method="vanilla")
    assert server.served == 1
    assert "unknown_bill" in codes(report)
    assert server.billed <= report["most_billed"] <= report["ceiling"]


@pytest.mark.parametrize("fault", REFUSED_FOR_GOOD)
def test_a_refusal_for_good_is_not_argued_with(fault: Fault, solve: Solve) -> None:
    with FaultServer(always(fault)) as server:
        report = solve(server, method="vanilla")
    assert server.served == 1
    assert REFUSED_FOR_GOOD[fault] in report["error"]
    assert report["usage"]["calls"] == 0


def test_nor_is_it_by_any_of_the_steps(solve: Solve) -> None:
    with FaultServer(always("bad_key")) as server:
        report = solve(server, execution="stepwise")
    # A plan, perhaps once more without a schema; the same for grades; then the question in one go.
    assert server.served <= 5
    assert REFUSED_FOR_GOOD["bad_key"] in report["error"]


def test_a_server_that_asks_for_an_hour_is_not_waited_for(solve: Solve) -> None:
    with FaultServer(always("rate_limit_with_wait"), wait="3600") as server:
        report = solve(server, method="vanilla")
    assert server.served == 1
    assert "rate limit" in report["error"]


def test_thinking_that_ate_the_cap_is_asked_for_its_answer(solve: Solve) -> None:
    with FaultServer(in_turn("empty_at_cap")) as server:
        report = solve(server, method="global_budget", budget=200, enforcement="force")
    assert report["answer"] == "Final answer: 42"
    assert report["usage"]["output_tokens"] <= report["ceiling"]


@pytest.mark.parametrize("fault", ["refusal", "content_filter"])
def test_a_model_that_declines_is_no_answer_but_was_paid(fault: Fault, solve: Solve) -> None:
    with FaultServer(always(fault)) as server:
        report = solve(server, method="vanilla")
    assert server.served == 1
    assert "No answer" in report["error"]
    assert report["usage"]["output_tokens"] == 3


@pytest.mark.parametrize("solve", ["invoke"], indirect=True)
@pytest.mark.parametrize("fault", get_args(Fault))
def test_a_planner_that_is_down_does_not_keep_the_question_from_being_answered(
    fault: Fault, solve: Solve
) -> None:
    with FaultServer(lambda request: fault if request.plans else None) as server:
        report = solve(server, retries=1, execution="stepwise", planner_apart=True)
    assert report["answer"] == "Final answer: 42"
    assert bool(report["warnings"]) is (fault != "no_usage")


@pytest.mark.parametrize("solve", ["ainvoke"], indirect=True)
@pytest.mark.parametrize("fault", get_args(Fault))
def test_one_failed_step_does_not_lose_the_others(fault: Fault, solve: Solve) -> None:
    def second_only(request: Request) -> Fault | None:
        asked = str(request.body["messages"][-1]["content"])
        return fault if asked.startswith("Solve sub-question 2 ") else None

    with FaultServer(second_only) as server:
        report = solve(server, retries=1, execution="stepwise", enforcement="cap")
    assert report["answer"] == "Final answer: 42"
    assert [step["question"] for step in report["steps"]] == list(CHAIN)
    others = [step for step in report["steps"] if step["index"] != 1]
    assert all(step["finish"] == "stop" and step["answer"] for step in others)
    if fault == "no_usage":
        assert not report["usage"]["measured"]
    if fault in (*TRANSIENT, *REFUSED_FOR_GOOD):
        assert report["steps"][1]["finish"] == "error"
        assert codes(report)[0] == "call_failed"


@pytest.mark.parametrize(("enforcement", "seed"), [("cap", 0), ("force", 1), ("force", 2)])
async def test_the_ceiling_holds_and_the_account_is_true_however_much_goes_wrong(
    enforcement: str, seed: int
) -> None:
    faults = tuple(fault for fault in get_args(Fault) if fault != "stall")
    rough = now_and_then(0.3, seed, faults)
    with FaultServer(rough, answer="so it goes on and on " * 100) as server:
        graph = graph_to(server, execution="stepwise", enforcement=enforcement, budget=240)

        async def one() -> dict[str, Any]:
            try:
                return checked((await graph.ainvoke(QUESTION))["report"])
            except NoAnswerError as error:
                return checked(error.report)

        reports = await asyncio.gather(*(one() for _ in range(10)))
    for report in reports:
        assert report["usage"]["output_tokens"] <= report["ceiling"]
        assert sum(step["tokens"] or 0 for step in report["steps"]) <= report["budget"]
    assert any(report["warnings"] for report in reports)


@pytest.mark.parametrize("is_named", [False, True])
def test_a_model_is_tried_as_often_as_the_settings_say_and_not_by_its_sdk(
    is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with FaultServer(always("rate_limit_with_wait"), wait="0.01") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        model = "openai:m" if is_named else chat_to(server.url, max_retries=4)
        graph: Any = build_graph(model, settings=Settings(method="vanilla", max_retries=1))
        with pytest.raises(NoAnswerError, match="failed, 2 times,"):
            graph.invoke(QUESTION)
    assert server.served == 2


def test_a_server_that_is_not_there_is_said_to_be_so(solve: Solve) -> None:
    with FaultServer() as server:
        pass
    report = solve(server, method="vanilla")
    assert "running and reachable" in report["error"]
    assert report["usage"]["measured"]


@pytest.mark.parametrize("planner_lives", [False, True])
def test_where_it_should_be_is_told_once_and_without_the_password(planner_lives: bool) -> None:
    policy = RetryPolicy(1, initial_interval=0.01)
    with FaultServer() as other:
        with FaultServer() as server:  # within, lest the other is given its port
            pass
        address = server.url.replace("//", "//me:secret@")
        gone = ChatClient(chat_to(address, max_retries=0), retry_policy=policy)
        settings = Settings(
            method="plan_and_budget", plan_from=1, execution="stepwise", parallel=False
        )
        planner = chat_to(other.url, max_retries=0) if planner_lives else None
        with pytest.raises(NoAnswerError) as caught:
            run(build_graph(gone, planner=planner, settings=settings))
    report = checked(caught.value.report)
    assert len(report["steps"]) == (len(CHAIN) if planner_lives else 1)
    assert str(caught.value).count(server.url) == 1
    assert "secret" not in f"{caught.value} {report['warnings']}"


@pytest.mark.parametrize("way", get_args(Way))
def test_a_time_limit_that_is_bound_stands(way: Way) -> None:
    with FaultServer(latency=2.0) as server:
        once = Settings(method="vanilla", max_retries=0)
        graph = build_graph(chat_to(server.url, timeout=0.2), settings=once)
        with pytest.raises(NoAnswerError, match="Timeout"):
            run(graph, QUESTION, way)
