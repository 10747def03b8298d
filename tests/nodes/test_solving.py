"""A step stays within its share and fails alone; the steps make one answer with one account."""

from __future__ import annotations

import re
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel

from pb_graph import Budget, NoAnswerError, PlanAndBudgetError
from pb_graph.models.options import CallOptions
from pb_graph.types import Finish
from tests.support.chat_model import (
    Call,
    HTTPError,
    Reply,
    Said,
    Script,
    ScriptedChat,
    in_turn,
    runs_on,
    thinks_in_vain,
    until_forced,
    with_schema,
)
from tests.support.graphs import (
    CHAIN,
    ENFORCED,
    QUESTION,
    Way,
    both_ways,
    checked,
    codes,
    graph_of,
    report_of,
    run,
)

# Four steps of 100 tokens each.
ONE_AFTER_ANOTHER = ("First?", "Second? | of it | after 1", "Third? | of it | after 2", "Last?")
EVEN: dict[str, Any] = {"execution": "stepwise", "schedule": "uniform", "budget": 400, "reserve": 0}
LAST_STEP = EVEN | {"synthesis": "last_step"}
STEPWISE = LAST_STEP | {"reserve": 30}


def solved(solve: Script, **settings: Any) -> tuple[ScriptedChat, dict[str, Any]]:  # noqa: ANN401
    model = ScriptedChat(plan=CHAIN, solve=solve)
    return model, report_of(model, **(STEPWISE | settings))


@pytest.mark.parametrize(
    ("enforcement", "solve", "finish", "tokens"),
    [
        ("prompt", Reply("ok", reasoning=200), "stop", 201),
        ("cap", Reply("ok", reasoning=50), "stop", 51),
        ("cap", runs_on, "length", 100),
        ("force", Reply("ok", reasoning=50), "stop", 51),
        ("force", runs_on, "forced", 100),
        ("force", until_forced, "forced", 73),
    ],
)
def test_a_step_ends_in_one_of_these_ways(
    enforcement: str, solve: Script, finish: Finish, tokens: int
) -> None:
    _, report = solved(solve, **ENFORCED[enforcement])
    assert {step["finish"] for step in report["steps"]} == {finish}
    assert report["steps"][0]["tokens"] == tokens


def test_a_forced_result_stands_alone_but_a_final_answer_keeps_its_working() -> None:
    def works(call: Call) -> Said:
        return "so 42" if call.forced else runs_on(call)

    _, report = solved(works, enforcement="force")
    assert report["steps"][0]["answer"] == "so 42"
    assert report["answer"].startswith("and so on")
    assert report["answer"].endswith("so 42")


@pytest.mark.parametrize("budget", [2, 3, 10])
def test_even_a_tiny_budget_is_not_paid_for_silence(budget: int) -> None:
    _, report = solved(until_forced, enforcement="force", method="global_budget", budget=budget)
    assert report["answer"]
    assert report["usage"]["output_tokens"] <= budget


@both_ways
def test_a_failed_step_is_recorded_and_the_rest_goes_on(way: Way) -> None:
    model = ScriptedChat(plan=CHAIN, solve=in_turn("one", HTTPError(503), "three", "four"))
    report = report_of(model, way=way, **STEPWISE, max_retries=0)
    assert [step["finish"] for step in report["steps"]] == ["stop", "error", "stop", "stop"]
    assert [step["answer"] for step in report["steps"]] == ["one", "", "three", "four"]
    assert report["answer"] == "four"
    assert codes(report) == ["call_failed"]


def test_what_was_paid_before_a_forced_ending_failed_is_kept_and_counted() -> None:
    def fails_when_forced(call: Call) -> Said:
        return HTTPError(503) if call.forced else runs_on(call)

    model, report = solved(fails_when_forced, enforcement="force")
    assert [step["finish"] for step in report["steps"]] == ["length"] * 4
    assert all(step["tokens"] and step["answer"] for step in report["steps"])
    assert model.output_tokens == sum(step["tokens"] for step in report["steps"]) + sum(
        call.output_tokens for call in model.calls if call.role != "solve"
    )
    assert report["usage"]["output_tokens"] == model.output_tokens <= report["limit"]
    assert "call_failed" in codes(report)


def test_once_the_limit_is_passed_nothing_more_is_asked() -> None:
    model = ScriptedChat(plan=ONE_AFTER_ANOTHER, solve="word " * 900, obeys_cap=False)
    report = report_of(model, **STEPWISE)
    assert len(model.solving()) == 1
    assert report["usage"]["output_tokens"] == model.output_tokens > report["limit"]
    assert report["answer"].startswith("word")
    assert "limit_reached" in codes(report)


FORMULA = {"question": r"What is $6 \cdot 7$?"}  # asked at length in one call
BOXED = r"Close with the number alone inside one \boxed command."


@pytest.mark.parametrize(
    ("said", "answer_format", "added"),
    [
        ("It is 42.", BOXED, "\n\n\\boxed{42}"),
        (r"It is \boxed{42}.", BOXED, ""),
        ("It is 42.", "", ""),
    ],
)
def test_an_answer_without_the_box_that_is_wanted_is_asked_for_it(
    said: str, answer_format: str, added: str
) -> None:
    def solve(call: Call) -> Said:
        return r"\boxed{42}" if call.forced else said

    chat = ScriptedChat(solve=solve)
    report = report_of(
        chat, FORMULA | {"answer_format": answer_format}, method="vanilla", budget=900
    )
    assert report["answer"] == said + added
    assert report["usage"]["output_tokens"] <= report["limit"]
    assert [call.forced for call in chat.calls] == ([False, True] if added else [False])
    assert all(r"Reply with \boxed{...}" in call.ask for call in chat.calls if call.forced)


def tells(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    """Cap policy that shows the model how much it may think."""
    return with_schema(model, limits) | {"thinking": limits.thinking}


def modes(solve: Script, **settings: Any) -> tuple[list[str], dict[str, Any]]:  # noqa: ANN401
    """How much each of the solver's calls may think, and the report."""
    model = ScriptedChat(plan=CHAIN, solve=solve)
    report = run(graph_of(model, cap_policy=tells, **settings))["report"]
    asked = {call.arguments["thinking"] for call in model.calls if call.role != "solve"}
    assert asked <= {"bounded", "off"}
    return [call.arguments["thinking"] for call in model.solving()], report


def until_switched_off(call: Call) -> Said:
    """Thinks up to the cap, whatever it is told, unless its provider switches thinking off."""
    return "Final answer: 42" if call.arguments["thinking"] == "off" else thinks_in_vain(call)


@pytest.mark.parametrize(
    ("chosen", "thinking"),
    [
        (LAST_STEP, "bounded"),
        ({**STEPWISE, "enforcement": "prompt"}, "free"),
        ({"method": "vanilla"}, "free"),
    ],
    ids=["enforced", "said", "none"],
)
def test_only_an_enforced_budget_bounds_thinking(chosen: dict[str, Any], thinking: str) -> None:
    assert set(modes("ok", **chosen)[0]) == {thinking}


def test_when_thinking_ate_it_all_a_forced_ending_goes_without() -> None:
    thinking, report = modes(until_switched_off, **STEPWISE, enforcement="force")
    assert thinking == ["bounded", "off"] * len(CHAIN)
    assert {step["finish"] for step in report["steps"]} == {"forced"}
    assert all("42" in step["answer"] for step in report["steps"])


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
    report = report_of(model, {"level": 4, **asked}, **EVEN)
    assert report["answer"] == answer
    assert len(model.solving()) == 2
    assert ("Final answer" in model.solving()[-1].ask) == (
        "How many" in asked["question"] or "domain" in asked
    )


def test_every_part_of_a_joined_answer_is_told_its_form() -> None:
    plan = '{"delivers": "all", "steps": ["Write on how bees live.", "Write on bees and people."]}'
    model = ScriptedChat(planner=plan, solve=in_turn("one", "two"))
    report_of(model, ESSAY | {"answer_format": "Each paragraph has a title in capitals."}, **EVEN)
    for call in model.solving():
        told = [str(said.content) for said in call.messages if "in capitals" in str(said.content)]
        assert len(told) == 1


def test_a_joined_answer_that_lacks_a_part_or_was_cut_says_so() -> None:
    plan = '{"delivers": "all", "steps": ["Write on how bees live.", "Write on bees and people."]}'
    model = ScriptedChat(planner=plan, solve=in_turn("one", HTTPError(400)))
    report = report_of(model, ESSAY, **EVEN)
    assert (report["answer"], report["finish"]) == ("one", "length")
    assert codes(report)[-2:] == ["answer_from_step", "cut_off"]
    cut = report_of(ScriptedChat(planner=plan, solve=runs_on), ESSAY, **EVEN)
    assert cut["finish"] == "length"
    assert codes(cut)[-1] == "cut_off"


def test_a_call_puts_the_answer_together_below_the_limit() -> None:
    def solve(call: Call) -> Said:
        return "together" if call.node == "synthesize" else "partial"

    model = ScriptedChat(plan=CHAIN, solve=solve)
    report = report_of(model, **EVEN, synthesis="call")
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


def test_what_came_last_is_not_what_the_plan_has_last() -> None:
    plan = ("First?", "Second? | after 1", "Third? | after 2", "Fourth? | after 1", "All?")

    def solve(call: Call) -> Said:
        step = re.search(r"sub-question ([1-4]) now", call.ask)
        return f"answer {step[1]}" if step else ""

    report = report_of(ScriptedChat(plan=plan, solve=solve), **LAST_STEP)
    assert report["steps"][2]["answer"] == "answer 3"  # in a wave of its own, after the fourth
    assert report["answer"] == "answer 4"
    assert codes(report)[-1] == "answer_from_step"


@both_ways
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
def test_a_report_says_how_the_answer_ended(finish: str) -> None:
    reserve = 0 if finish == "length" else 48
    model = ScriptedChat(plan=CHAIN, solve=ENDS[finish])
    report = report_of(model, reserve=reserve, execution="stepwise", budget=200)
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
    graph = graph_of(ScriptedChat(), cap_policy=thinks_little, method="vanilla")
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


def test_what_was_spent_in_vain_is_in_the_state_for_a_client_that_gets_no_exception() -> None:
    model = ScriptedChat(solve=thinks_in_vain)
    parts: list[Any] = []
    with pytest.raises(RuntimeError, match="No answer, after"):
        list(map(parts.append, graph_of(model).stream(QUESTION, stream_mode="values")))
    assert checked(parts[-1]["report"])["usage"]["calls"] > 0
