"""Attempts that came to nothing, in the account of a question: what they cost is never lost."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from pb_graph import NoAnswerError, Settings, build_graph
from pb_graph.models.client import ChatClient, RetryPolicy
from tests.support.chat_model import CutOffError, Said, ScriptedChat, in_turn, runs_on, with_schema
from tests.support.graphs import CHAIN, ENFORCED, QUESTION, Way, checked, codes, run

both_ways = pytest.mark.parametrize("way", get_args(Way))
WORDS = "so it is 42"
STEPWISE: dict[str, Any] = {"execution": "stepwise", "plan_from": 1, "budget": 400}


def report_of(way: Way, *said: Said, retries: int = 1, **settings: Any) -> dict[str, Any]:  # noqa: ANN401
    """The account of a question whose model is tried again at once."""
    solve = in_turn(*said)
    model = ScriptedChat(plan=CHAIN, solve=solve, max_retries=0)
    client = ChatClient(model, with_schema, RetryPolicy(retries, initial_interval=0.001))
    graph = build_graph(client, settings=Settings(**(STEPWISE | settings)))
    try:
        return checked(run(graph, QUESTION, way)["report"])
    except NoAnswerError as error:
        return checked(error.report)


@both_ways
def test_a_step_pays_for_the_attempt_that_failed(way: Way) -> None:
    report = report_of(way, WORDS, CutOffError(9), WORDS)
    assert [step["tokens"] for step in report["steps"]] == [4, 9 + 4, 4, 4]
    assert report["usage"]["by_node"]["solve"]["output_tokens"] == 25
    assert report["usage"]["by_node"]["solve"]["calls"] == 5
    assert report["usage"]["measured"]
    assert report["warnings"] == []


@both_ways
def test_an_attempt_of_unknown_cost_uses_up_the_limit_and_is_said_to(way: Way) -> None:
    report = report_of(way, TimeoutError(), WORDS, method="vanilla", reserve=0)
    assert report["usage"]["calls"] == 1
    assert not report["usage"]["measured"]
    assert codes(report) == ["call_failed", "unknown_bill"]
    assert 0 < report["most_billed"] <= report["limit"]


@both_ways
@pytest.mark.parametrize("enforcement", ENFORCED)
def test_what_may_be_billed_never_passes_the_limit(way: Way, enforcement: str) -> None:
    long = str(runs_on(None))  # type: ignore[arg-type]
    rough = (TimeoutError(), long, CutOffError(10), TimeoutError(), WORDS, TimeoutError())
    for first in range(len(rough)):
        said = (*rough[first:], long)
        report = report_of(way, *said, cutoff=300, **ENFORCED[enforcement])
        assert report["most_billed"] <= report["limit"]
