"""Planning takes what it can use of a reply, repairs once, then goes on without a plan."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pb_graph import Budget
from tests.support.chat_model import ScriptedChat, in_turn, runs_on
from tests.support.graphs import CHAIN, QUESTION, codes, report_of
from tests.support.worlds import followed


def test_a_hint_that_states_a_result_never_reaches_the_solver() -> None:
    plan = ["How many groups? | 14 / 2 = 9", "How many pens is that?"]
    model = ScriptedChat(plan=plan)
    report = report_of(model, method="plan_and_budget", execution="stepwise")
    told = "\n".join(str(m.text) for call in model.solving() for m in call.messages)
    assert "How many groups?" in told
    assert "= 9" not in told
    assert codes(report) == ["plan_corrected"]


@pytest.mark.parametrize("planning", ["two_call", "fused"])
def test_a_reply_without_a_plan_is_asked_for_once_more(planning: str) -> None:
    good = json.dumps({"steps": ["First?", "Second?"]})
    grades = json.dumps({"level": 3, "levels": [3, 3], "credits": [50, 50]})
    model = ScriptedChat(planner=in_turn("I would rather not.", good, grades))
    report = report_of(model, QUESTION | {"level": 3}, planning=planning)
    assert len(report["steps"]) == 2
    assert codes(report)[0] == "unreadable_reply"
    assert report["usage"]["by_node"]["plan"]["calls"] == 2
    assert report["usage"]["output_tokens"] == model.output_tokens
    assert len(str(model.calls[1].messages)) > len(str(model.calls[0].messages))


@pytest.mark.parametrize("said", ['{"steps": []}', ""])
def test_two_replies_without_a_plan_make_it_one_step(said: str) -> None:
    model = ScriptedChat(planner=said)
    report = report_of(model, QUESTION | {"level": 3})
    assert len(report["steps"]) == 1
    assert report["answer"] == "Final answer: 42"
    assert codes(report)[-2:] == ["unreadable_reply", "single_step"]
    assert report["usage"]["output_tokens"] == model.output_tokens


@pytest.mark.parametrize(
    ("plan_from", "planned"), [(1, True), (3, True), (4, False), (None, False)]
)
@pytest.mark.parametrize("execution", ["single_pass", "stepwise"])
def test_below_a_level_the_plan_is_the_question_itself(
    plan_from: int | None, planned: bool, execution: str
) -> None:
    model = ScriptedChat(plan=CHAIN, level=3)
    report = report_of(model, plan_from=plan_from, budget=300, execution=execution)
    assert len(report["steps"]) == (len(CHAIN) if planned else 1)
    assert ("fused" in {call.role for call in model.calls}) == planned
    if not planned:
        (step,) = report["steps"]
        assert (step["question"], step["share"]) == (QUESTION["question"], 300)
        assert (step["tokens"], step["finish"]) == (3, "stop")
        assert "sub-question" not in model.calls[-1].ask
        assert "300" not in model.calls[-1].ask


@pytest.mark.parametrize("budget", [60, 700])
@pytest.mark.parametrize("planning", ["two_call", "fused"])
def test_a_runaway_planner_cannot_raise_the_limit(planning: str, budget: int) -> None:
    model = ScriptedChat(planner=runs_on, solve=runs_on)
    outcome = followed(model, planning=planning, budget=budget, execution="stepwise")
    told = outcome.events[0]["limit"]
    assert model.output_tokens <= outcome.report["limit"] <= told <= 2 * budget


def test_every_call_of_a_question_draws_on_one_tree_of_accounts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[list[Budget]] = []
    reserve = Budget.reserve

    def watched(own: Budget, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        lines.extend(account.line for account in (own, *options.get("also", ())))
        return reserve(own, *args, **options)

    monkeypatch.setattr(Budget, "reserve", watched)
    limit = Budget(9000)
    report_of(ScriptedChat(plan=CHAIN), limit=limit)
    assert {id(line[-1]) for line in lines} == {id(limit)}
