"""A step stays within its share, states its result when forced, and fails alone."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from langchain_core.language_models import BaseChatModel

from pb_graph import Settings, build_graph
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
from tests.support.graphs import CHAIN, ENFORCED, Way, codes, report_of, run

# Four steps of 100 tokens each.
ONE_AFTER_ANOTHER = ("First?", "Second? | of it | after 1", "Third? | of it | after 2", "Last?")
STEPWISE: dict[str, Any] = {
    "method": "plan_and_budget",
    "execution": "stepwise",
    "schedule": "uniform",
    "budget": 400,
    "synthesis": "last_step",
    "reserve": 30,
    "plan_from": 1,
}


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


@pytest.mark.parametrize("way", get_args(Way))
def test_a_failed_step_is_recorded_and_the_rest_goes_on(way: Way) -> None:
    model = ScriptedChat(plan=CHAIN, solve=in_turn("one", HTTPError(503), "three", "four"))
    report = report_of(model, way=way, **STEPWISE, max_retries=0)
    assert [step["finish"] for step in report["steps"]] == ["stop", "error", "stop", "stop"]
    assert [step["answer"] for step in report["steps"]] == ["one", "", "three", "four"]
    assert report["answer"] == "four"
    assert codes(report) == ["call_failed"]


def fails_when_forced(call: Call) -> Said:
    return HTTPError(503) if call.forced else runs_on(call)


def test_what_was_paid_before_a_forced_ending_failed_is_kept_and_counted() -> None:
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
    report = report_of(model, **(STEPWISE))
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
    graph = build_graph(model, settings=Settings(**settings), cap_policy=tells)
    report = run(graph)["report"]
    asked = {call.arguments["thinking"] for call in model.calls if call.role != "solve"}
    assert asked <= {"bounded", "off"}
    return [call.arguments["thinking"] for call in model.solving()], report


def until_switched_off(call: Call) -> Said:
    """Thinks up to the cap, whatever it is told, unless its provider switches thinking off."""
    return "Final answer: 42" if call.arguments["thinking"] == "off" else thinks_in_vain(call)


@pytest.mark.parametrize(
    ("chosen", "thinking"),
    [
        ({**STEPWISE, "reserve": 0}, "bounded"),
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
