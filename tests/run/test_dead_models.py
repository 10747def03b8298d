"""A model that is out of reach is asked once, said once, and not asked again for that question."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from pb_graph import NoAnswerError, Settings, build_graph
from pb_graph.models.client import ChatClient, RetryPolicy
from tests.support.chat_model import Call, HTTPError, Said, ScriptedChat, with_schema
from tests.support.graphs import CHAIN, QUESTION, Way, checked, codes, run


class ConnectError(ConnectionError):
    """What httpx calls a server that is not there."""


PLANNED = Settings(method="plan_and_budget", plan_from=1)
GONE = [HTTPError(404, "no such model"), HTTPError(401, "bad key"), ConnectError("refused")]
both_ways = pytest.mark.parametrize("way", get_args(Way))


def client(**script: Any) -> tuple[ScriptedChat, ChatClient]:  # noqa: ANN401
    """A model that is tried twice, at once."""
    model = ScriptedChat(plan=CHAIN, max_retries=0, **script)
    return model, ChatClient(model, with_schema, RetryPolicy(1, initial_interval=0.001))


@both_ways
@pytest.mark.parametrize("gone", GONE, ids=["404", "401", "no server"])
def test_its_failure_is_said_once_with_its_name(gone: Exception, way: Way) -> None:
    model, only = client(planner=gone, solve=gone)
    graph = build_graph(only, settings=Settings(execution="stepwise", plan_from=1, parallel=False))
    with pytest.raises(NoAnswerError, match="The model call to scripted-1 failed") as caught:
        run(graph, QUESTION, way)
    assert len(model.calls) == (2 if isinstance(gone, ConnectError) else 1)
    assert str(caught.value).count("failed") == 1
    assert str(checked(caught.value.report)["warnings"]).count(" failed") == 1


@both_ways
def test_nor_does_each_step_ask_a_server_that_is_not_there(way: Way) -> None:
    _, planner = client()
    model, solver = client(solve=GONE[-1])
    settings = Settings(execution="stepwise", plan_from=1, parallel=False)
    with pytest.raises(NoAnswerError) as caught:
        run(build_graph(solver, planner=planner, settings=settings), QUESTION, way)
    assert len(model.calls) == 2
    assert str(caught.value).count("failed") == 1
    report = checked(caught.value.report)
    assert str(report["warnings"]).count(" failed") == 1
    assert [step["finish"] for step in report["steps"]] == ["error"] * len(CHAIN)


@both_ways
def test_a_step_that_was_refused_does_not_stop_the_others(way: Way) -> None:
    def refuses_one(call: Call) -> Said:
        return HTTPError(404) if "sub-question 2 " in call.ask else "42"

    _, only = client(solve=refuses_one)
    settings = Settings(execution="stepwise", plan_from=1, parallel=False)
    report = run(build_graph(only, planner=client()[1], settings=settings), QUESTION, way)["report"]
    assert [step["finish"] for step in report["steps"]] == ["stop", "error", "stop", "stop"]


@both_ways
def test_another_model_goes_on(way: Way) -> None:
    model, solver = client()
    _, planner = client(planner=HTTPError(404))
    out = run(build_graph(solver, planner=planner), QUESTION, way)
    assert out["answer"] == "Final answer: 42"
    assert [call.role for call in model.calls] == ["solve"]


@both_ways
def test_a_server_in_trouble_may_be_well_for_the_next_call(way: Way) -> None:
    model, only = client(planner=HTTPError(503))
    out = run(build_graph(only, settings=PLANNED), QUESTION, way)
    assert out["answer"] == "Final answer: 42"
    assert "call_failed" in codes(out["report"])
    assert len(model.solving()) == 1


@both_ways
def test_nor_is_a_model_given_up_whose_fallback_is_only_in_trouble(way: Way) -> None:
    gone = ScriptedChat(planner=HTTPError(404), solve=HTTPError(404))
    busy = ScriptedChat(planner=HTTPError(503))
    graph = build_graph(gone.with_fallbacks([busy]), settings=PLANNED)
    assert run(graph, QUESTION, way)["answer"] == "Final answer: 42"


def test_the_next_question_on_the_thread_asks_again() -> None:
    said: list[Any] = [HTTPError(404)]
    _, only = client(solve=lambda _: said[-1])
    graph = build_graph(only, settings=Settings(method="vanilla"), checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    with pytest.raises(NoAnswerError):
        run(graph, QUESTION, config=thread)
    assert graph.get_state(thread).values["report"]["usage"]["calls"] == 0
    said.append("42")
    assert run(graph, QUESTION, config=thread)["answer"] == "42"
