"""The account is closed with a report; without any answer it travels in the error."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from pb_graph import NoAnswerError, PlanAndBudgetError
from tests.support.chat_model import (
    HTTPError,
    Script,
    ScriptedChat,
    in_turn,
    says_nothing,
    thinks_in_vain,
)
from tests.support.graphs import CHAIN, QUESTION, Way, checked, graph_of, report_of, run

METHODS: list[dict[str, Any]] = [
    {"method": "vanilla"},
    {"method": "global_budget"},
    {"method": "plan_and_budget", "execution": "single_pass"},
    {"method": "plan_and_budget", "execution": "stepwise"},
]


@pytest.mark.parametrize("way", get_args(Way))
@pytest.mark.parametrize("method", METHODS)
def test_when_all_is_down_the_error_tells_what_was_spent(method: dict[str, Any], way: Way) -> None:
    model = ScriptedChat(plan=CHAIN, solve=HTTPError(503, "no capacity"))
    with pytest.raises(NoAnswerError, match=r"HTTP 503.*try again later") as caught:
        run(graph_of(model, **method), QUESTION, way)
    report = checked(caught.value.report)
    assert report["answer"] == ""
    assert report["usage"]["output_tokens"] == model.output_tokens
    assert f"after {model.output_tokens} completion tokens" in str(caught.value)
    assert isinstance(caught.value, PlanAndBudgetError)


@pytest.mark.parametrize("solve", [says_nothing, thinks_in_vain])
@pytest.mark.parametrize("method", METHODS)
def test_silence_is_no_answer(method: dict[str, Any], solve: Script) -> None:
    model = ScriptedChat(plan=CHAIN, solve=solve)
    with pytest.raises(NoAnswerError) as caught:
        run(graph_of(model, **method), QUESTION)
    assert caught.value.report["usage"]["output_tokens"] == model.output_tokens


def test_no_key_gets_into_a_report() -> None:
    model = ScriptedChat(solve=in_turn(HTTPError(401, "Bad key sk-1234567890abcdef"), "42"))
    report = report_of(model, method="plan_and_budget", execution="stepwise")
    assert "1234567890" not in str(report)
    assert any("HTTP 401" in note for note in report["warnings"])


def test_usage_is_split_by_node_in_the_order_of_the_question() -> None:
    model = ScriptedChat(plan=CHAIN)
    usage = report_of(model, method="plan_and_budget", execution="stepwise", synthesis="call")[
        "usage"
    ]
    assert list(usage["by_node"]) == ["plan", "estimate", "solve", "synthesize"]
    for count in ("input_tokens", "output_tokens", "calls"):
        assert sum(part[count] for part in usage["by_node"].values()) == usage[count]


def test_methods_without_a_part_leave_it_out_of_the_report() -> None:
    report = report_of(ScriptedChat(), method="vanilla")
    assert (report["execution"], report["schedule"], report["budget"]) == (None, None, None)
    assert report["steps"] == []
    planned = report_of(ScriptedChat(), method="planned_vanilla")
    assert {step["budget"] for step in planned["steps"]} == {None}


def test_reasoning_is_counted_within_the_output() -> None:
    model = ScriptedChat(solve=thinks_in_vain)
    with pytest.raises(NoAnswerError) as caught:
        run(graph_of(model, method="vanilla", cutoff=50), QUESTION)
    usage = caught.value.report["usage"]
    assert (usage["output_tokens"], usage["reasoning_tokens"]) == (50, 50)
