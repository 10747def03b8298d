"""The account is closed with a report; without any answer it travels in the error."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from pb_graph import Budget, NoAnswerError, PlanAndBudgetError, build_graph
from pb_graph.models.options import CallOptions
from tests.support.chat_model import (
    Call,
    HTTPError,
    ScriptedChat,
    runs_on,
    thinks_in_vain,
)
from tests.support.graphs import CHAIN, QUESTION, Way, checked, graph_of, report_of, run


@pytest.mark.parametrize("way", get_args(Way))
def test_when_all_is_down_the_error_tells_what_was_spent(way: Way) -> None:
    model = ScriptedChat(plan=CHAIN, solve=HTTPError(503, "no capacity"))
    with pytest.raises(NoAnswerError, match=r"HTTP 503.*try again later") as caught:
        run(graph_of(model, execution="stepwise"), QUESTION, way)
    report = checked(caught.value.report)
    assert report["answer"] == ""
    assert report["usage"]["output_tokens"] == model.output_tokens
    assert f"after {model.output_tokens} completion tokens" in str(caught.value)
    assert isinstance(caught.value, PlanAndBudgetError)


ENDS = {"stop": "Final answer: 42", "length": runs_on, "forced": runs_on}


@pytest.mark.parametrize("finish", ENDS)
@pytest.mark.parametrize("execution", ["single_pass", "stepwise"])
def test_a_report_says_how_the_answer_ended(execution: str, finish: str) -> None:
    reserve = 0 if finish == "length" else 48
    model = ScriptedChat(plan=CHAIN, solve=ENDS[finish])
    report = report_of(model, reserve=reserve, execution=execution, budget=200)
    assert report["finish"] == finish


@pytest.mark.parametrize(
    ("said", "result"),
    [
        (r"3 groups of 3 are \boxed{9}.", "9"),
        ("1. 3 * 3 = 9\nFinal answer: 9", "9"),
        ("negative", "negative"),
        ("There are 3 groups.\nEach has 3 pens.", None),
    ],
)
def test_a_report_has_the_bare_result_if_the_answer_states_one(said: str, result: str) -> None:
    model = ScriptedChat(solve=said)
    assert report_of(model, method="vanilla")["result"] == result
    cut = report_of(ScriptedChat(solve=f"9 {said}"), method="vanilla", cutoff=1)
    assert (cut["cut_off"], cut["result"]) == (True, None)


def thinks_little(_: object, limits: CallOptions) -> dict[str, Any]:
    return {"max_tokens": limits.cap, "reasoning_effort": "low"}


def test_a_report_tells_the_reasoning_effort_that_was_asked_for() -> None:
    graph = build_graph(ScriptedChat(), settings={"method": "vanilla"}, cap_policy=thinks_little)
    effort = run(graph)["report"]["effort"]
    assert effort.startswith("reasoning_effort=low: ")
    assert report_of(ScriptedChat())["effort"] is None


@pytest.mark.parametrize("is_spent", [True, False])
def test_the_final_message_says_that_a_call_was_refused(is_spent: bool) -> None:
    shared = Budget(3000)

    def solve(_: Call) -> str:
        if is_spent:  # by another, meanwhile
            shared.charge(shared.total)
        return "Final answer: 42"

    graph = graph_of(ScriptedChat(plan=CHAIN, solve=solve), limit=shared, execution="stepwise")
    message = run(graph)["messages"][-1]
    assert message.response_metadata.get("budget_used_up", False) == is_spent


def test_the_final_message_carries_the_account_for_hosts_and_tracers() -> None:
    model = ScriptedChat(plan=CHAIN)
    out = run(graph_of(model, execution="stepwise"), QUESTION)
    message, usage = out["messages"][-1], out["report"]["usage"]
    assert message.usage_metadata["output_tokens"] == usage["output_tokens"] == model.output_tokens
    assert message.usage_metadata["input_tokens"] == usage["input_tokens"]
    assert message.response_metadata["model_name"] == "scripted-1"
    ours = message.response_metadata["plan_and_budget"]
    assert (ours["budget"], ours["limit"]) == (out["report"]["budget"], out["report"]["limit"])
    assert ours["calls"] == usage["calls"]


def test_a_table_of_prices_says_what_a_query_cost() -> None:
    graph = build_graph(ScriptedChat(), prices={"scripted-1": (2.0, 10.0)})
    usage = checked(run(graph)["report"])["usage"]
    cost = (2 * usage["input_tokens"] + 10 * usage["output_tokens"]) / 1e6
    assert usage["cost"] == pytest.approx(cost)
    assert sum(part["cost"] for part in usage["by_node"].values()) == pytest.approx(cost)


def test_what_was_spent_in_vain_is_in_the_state_for_a_client_that_gets_no_exception() -> None:
    model = ScriptedChat(solve=thinks_in_vain)
    parts: list[Any] = []
    with pytest.raises(RuntimeError, match="No answer, after"):
        list(map(parts.append, graph_of(model).stream(QUESTION, stream_mode="values")))
    assert checked(parts[-1]["report"])["usage"]["calls"] > 0
