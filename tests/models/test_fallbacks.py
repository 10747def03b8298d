"""Models with fallbacks: the budget holds."""

from __future__ import annotations

from typing import get_args

import pytest

from pb_graph import NoAnswerError, Settings, build_graph
from tests.support.chat_model import CutOffError, HTTPError, ScriptedChat, runs_on
from tests.support.graphs import QUESTION, Way, run

both_ways = pytest.mark.parametrize("way", get_args(Way))
ONE_CALL = Settings(method="global_budget", budget=50, reserve=0)


@both_ways
def test_a_fallback_answers_for_a_model_that_fails(way: Way) -> None:
    first = ScriptedChat(model_name="first", planner=HTTPError(503), solve=HTTPError(401))
    second = ScriptedChat(model_name="second", solve="42")
    settings = Settings(method="plan_and_budget")
    graph = build_graph(first.with_fallbacks([second]), settings=settings)
    out = run(graph, QUESTION, way)
    assert out["answer"] == "42"
    assert out["report"]["warnings"] == []
    assert {tuple(part["by_model"]) for part in out["report"]["usage"]["by_node"].values()} == {
        ("second",)
    }


def test_a_fallback_gets_no_more_than_the_failed_call_has_left() -> None:
    first, second = ScriptedChat(solve=CutOffError(30)), ScriptedChat(solve=runs_on)
    once = ONE_CALL.model_copy(update={"max_retries": 0})
    out = run(build_graph(first.with_fallbacks([second]), settings=once))
    assert second.calls[0].cap == 20
    assert out["report"]["usage"]["output_tokens"] == out["report"]["limit"] == 50


def test_what_a_lost_call_may_have_cost_is_not_left_to_its_fallbacks() -> None:
    first, second = ScriptedChat(solve=TimeoutError()), ScriptedChat(solve=runs_on)
    with pytest.raises(NoAnswerError) as caught:
        run(build_graph(first.with_fallbacks([second]), settings=ONE_CALL))
    assert second.calls == []
    assert caught.value.report["most_billed"] == caught.value.report["limit"] == 50
