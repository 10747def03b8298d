"""Allocation gives every token away once, and again what earlier steps left over."""

from __future__ import annotations

from typing import Any

from tests.support.chat_model import Reply, ScriptedChat, runs_on
from tests.support.graphs import CHAIN, codes, report_of
from tests.support.worlds import Outcome, followed

STEPWISE: dict[str, Any] = {
    "method": "plan_and_budget",
    "execution": "stepwise",
    "schedule": "uniform",
    "reserve": 0,
}


def budgets(outcome: Outcome) -> list[list[int]]:
    """The shares at first, and after every wave that left some step to be solved."""
    return [event["shares"] for event in outcome.of("allocate")]


def test_rollover_gives_what_a_step_left_to_those_to_come() -> None:
    model = ScriptedChat(plan=CHAIN, solve=Reply("ok", reasoning=9))
    outcome = followed(model, **STEPWISE, budget=400)
    assert budgets(outcome) == [
        [100, 100, 100, 100],
        [100, 130, 130, 130],
        [100, 130, 190, 190],
        [100, 130, 190, 370],
    ]
    assert outcome.report["usage"]["output_tokens"] <= outcome.report["limit"]


def test_a_budget_that_is_only_said_can_be_overspent_without_harm_to_later_steps() -> None:
    model = ScriptedChat(plan=CHAIN, solve=runs_on)
    chosen = STEPWISE | {"enforcement": "prompt", "budget": 100, "cutoff": 50}
    assert [step["share"] for step in followed(model, **chosen).report["steps"]] == [25] * 4


def test_fewer_tokens_than_steps_make_it_one_step() -> None:
    model = ScriptedChat(plan=CHAIN)
    report = report_of(model, execution="stepwise", budget=3, enforcement="prompt")
    assert len(report["steps"]) == 1
    assert report["steps"][0]["share"] == 3
    assert "single_step" in codes(report)


def test_in_one_pass_steps_are_told_their_shares_and_the_call_has_the_total() -> None:
    model = ScriptedChat(plan=CHAIN)
    chosen = STEPWISE | {"execution": "single_pass", "budget": 444}
    report = report_of(model, **chosen)
    (call,) = model.solving()
    assert call.cap == 444
    assert call.ask.count("111 tokens") == 4
    assert [step["share"] for step in report["steps"]] == [111] * 4
    assert [step["tokens"] for step in report["steps"]] == [None] * 4
