"""The last step's answer is the answer, or one capped call combines the answers of all."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.chat_model import Call, HTTPError, Said, ScriptedChat, in_turn, runs_on
from tests.support.graphs import CHAIN, ENFORCED, codes, report_of

STEPWISE: dict[str, Any] = {
    "method": "plan_and_budget",
    "execution": "stepwise",
    "schedule": "uniform",
    "budget": 400,
    "reserve": 0,
}
LAST_STEP = STEPWISE | {"synthesis": "last_step"}
CALL = STEPWISE | {"synthesis": "call"}


def at_the_end(said: Said) -> ScriptedChat:
    """Solve the steps as they should be, and say this in the closing call."""

    def solve(call: Call) -> Said:
        return said if call.node == "synthesize" else "partial"

    return ScriptedChat(plan=CHAIN, solve=solve)


ESSAY = {"question": "Write an essay of 300 words on bees.", "level": 4}


@pytest.mark.parametrize(
    ("asked", "delivers", "answer"),
    [
        (ESSAY, '"all"', "one\n\ntwo"),
        (ESSAY, "null", "one\n\ntwo"),  # a length is asked for
        (ESSAY, '"last"', "two"),
        ({"question": "Write a function that adds."}, '"all"', "one\n\ntwo"),
        ({"question": "Write a function that adds."}, "null", "two"),
        ({"question": "How many bees are 3 hives?"}, '"all"', "two"),  # worked out
        (ESSAY | {"domain": "mathematics"}, '"all"', "two"),
    ],
)
def test_by_default_the_plan_says_whether_its_parts_are_the_answer(
    asked: dict[str, Any], delivers: str, answer: str
) -> None:
    steps = '"steps": ["Write on how bees live.", "Write on bees and people."]'
    model = ScriptedChat(
        planner=f'{{"delivers": {delivers}, {steps}}}', solve=in_turn("one", "two")
    )
    report = report_of(model, {"level": 4, **asked}, **STEPWISE)
    assert report["answer"] == answer
    assert len(model.solving()) == 2
    assert ("Final answer" in model.solving()[-1].ask) == (
        "How many" in asked["question"] or "domain" in asked
    )


def test_a_joined_answer_that_lacks_a_part_or_was_cut_says_so() -> None:
    plan = '{"delivers": "all", "steps": ["Write on how bees live.", "Write on bees and people."]}'
    model = ScriptedChat(planner=plan, solve=in_turn("one", HTTPError(400)))
    report = report_of(model, ESSAY, **STEPWISE)
    assert (report["answer"], report["finish"]) == ("one", "length")
    assert codes(report)[-2:] == ["answer_from_step", "cut_off"]
    cut = report_of(ScriptedChat(planner=plan, solve=runs_on), ESSAY, **STEPWISE)
    assert cut["finish"] == "length"
    assert codes(cut)[-1] == "cut_off"


def test_a_call_puts_the_answer_together_below_the_limit() -> None:
    model = at_the_end("together")
    report = report_of(model, **CALL)
    assert report["answer"] == "together"
    assert len(model.solving()) == 5
    closing = model.solving()[-1]
    assert closing.cap == 100
    assert closing.ask.count("partial") == 4
    assert report["usage"]["by_node"]["synthesize"]["calls"] == 1


@pytest.mark.parametrize("last", ["", HTTPError(503)])
def test_if_the_last_step_comes_to_nothing_the_tokens_left_pay_for_one_call(last: Said) -> None:
    model = ScriptedChat(plan=CHAIN, solve=in_turn("one", "two", "three", last, "rescued"))
    report = report_of(model, **LAST_STEP, max_retries=0)
    assert report["answer"] == "rescued"
    assert len(model.solving()) == 5
    assert report["usage"]["output_tokens"] <= report["limit"]


def test_if_that_call_fails_too_the_last_answer_of_a_step_stands() -> None:
    failed = HTTPError(503)
    model = ScriptedChat(plan=CHAIN, solve=in_turn("one", "two", "three", failed, failed))
    report = report_of(model, **LAST_STEP, max_retries=0)
    assert report["answer"] == "three"
    assert codes(report)[-1] == "answer_from_step"


@pytest.mark.parametrize("enforcement", ENFORCED)
def test_the_limit_includes_the_closing_call(enforcement: str) -> None:
    model = ScriptedChat(plan=CHAIN, solve=runs_on)
    report = report_of(model, **(CALL | {"reserve": 48, "cutoff": 120} | ENFORCED[enforcement]))
    assert report["usage"]["output_tokens"] <= report["limit"]
    assert report["usage"]["by_node"]["synthesize"]["output_tokens"] >= 100


def test_what_came_last_is_not_what_the_plan_has_last() -> None:
    plan = ("First?", "Second? | after 1", "Third? | after 2", "Fourth? | after 1", "All?")

    def solve(call: Call) -> Said:
        step = re.search(r"sub-question ([1-4]) now", call.ask)
        return f"answer {step[1]}" if step else ""

    report = report_of(ScriptedChat(plan=plan, solve=solve), **LAST_STEP)
    assert report["steps"][2]["answer"] == "answer 3"  # in a wave of its own, after the fourth
    assert report["answer"] == "answer 4"
    assert codes(report)[-1] == "answer_from_step"
