"""Estimation asks for no more than the budget is made of, and corrects what it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.chat_model import HTTPError, Role, Script, ScriptedChat, thinks_in_vain
from tests.support.graphs import CHAIN, QUESTION, codes, graph_of, report_of

KNOWN = QUESTION | {"level": 4}
STEPWISE: dict[str, Any] = {
    "method": "plan_and_budget",
    "planning": "two_call",
    "schedule": "weighted",
}
TABLE = {"rule": "level_table", "tokens": {1: 100, 2: 200, 3: 300, 4: 400, 5: 500}}


def planner_roles(given: dict[str, Any], **settings: Any) -> list[Role]:  # noqa: ANN401
    model = ScriptedChat(plan=CHAIN)
    report_of(model, given, **settings)
    return [call.role for call in model.calls if call.role != "solve"]


@pytest.mark.parametrize(
    ("given", "settings", "roles"),
    [
        (QUESTION, {"method": "vanilla"}, []),
        (QUESTION, {"method": "planned_vanilla"}, ["decompose"]),
        (QUESTION, {"method": "global_budget", "budget": TABLE}, ["estimate"]),
        (KNOWN, {"method": "global_budget", "budget": TABLE}, []),
        (QUESTION, {"method": "global_budget", "budget": 300}, []),
        (
            QUESTION,
            {"method": "planned_global_budget", "budget": TABLE},
            ["estimate", "decompose"],
        ),
        (QUESTION, {"method": "planned_global_budget", "budget": 300}, ["decompose"]),
        (KNOWN, {"method": "planned_global_budget", "budget": TABLE}, ["decompose"]),
        (KNOWN, {**STEPWISE, "budget": TABLE}, ["decompose", "estimate"]),
        (QUESTION, {**STEPWISE, "budget": 300}, ["decompose", "estimate"]),
        (QUESTION, {**STEPWISE, "schedule": "bam", "budget": 300}, ["decompose", "estimate"]),
        (QUESTION, {**STEPWISE, "schedule": "uniform", "budget": 300}, ["decompose"]),
        (KNOWN, {**STEPWISE, "schedule": "uniform", "budget": TABLE}, ["decompose"]),
        (QUESTION, {**STEPWISE, "planning": "fused", "budget": TABLE}, ["estimate", "fused"]),
        (KNOWN, {**STEPWISE, "planning": "fused", "budget": TABLE}, ["fused"]),
    ],
)
def test_only_what_is_needed_and_not_known_is_estimated(
    given: dict[str, Any], settings: dict[str, Any], roles: list[Role]
) -> None:
    assert planner_roles(given, **settings) == roles


@pytest.mark.parametrize(("given", "level"), [(KNOWN, 4), (QUESTION, 2)])
@pytest.mark.parametrize("planning", ["two_call", "fused"])
def test_the_level_sets_the_total_a_given_one_whatever_the_planner_thinks(
    planning: str, given: dict[str, Any], level: int
) -> None:
    settings = STEPWISE | {"planning": planning, "budget": TABLE}
    report = report_of(ScriptedChat(level=2), given, **settings)
    assert (report["level"], report["budget"]) == (level, 100 * level)


@pytest.mark.parametrize("planning", ["two_call", "fused"])
@pytest.mark.parametrize(
    ("given", "used", "is_corrected"),
    [
        ([10, 20, 30, 40], [10, 20, 30, 40], False),
        ([8, 16, 24, 32], [10, 20, 30, 40], True),
        (["lots"] * 4, [25, 25, 25, 25], True),
    ],
)
def test_credits_are_used_as_shares_of_100_and_corrections_are_noted(
    given: list[Any], used: list[float], is_corrected: bool, planning: str
) -> None:
    model = ScriptedChat(plan=CHAIN, credits=given)
    report = report_of(model, **(STEPWISE | {"planning": planning}))
    assert [step["credit"] for step in report["steps"]] == used
    assert codes(report) == ["grades_corrected"] * is_corrected


def test_when_the_estimator_is_down_a_middle_level_is_assumed() -> None:
    model = ScriptedChat(planner=HTTPError(503))
    report = report_of(model, method="global_budget", budget=TABLE)
    assert (report["level"], report["budget"]) == (3, 300)
    assert "call_failed" in codes(report)


@pytest.mark.parametrize(
    ("settings", "calls"),
    [({"method": "global_budget"}, 3), ({"method": "plan_and_budget", "planning": "two_call"}, 5)],
    ids=["the level", "the level, then the grades"],
)
def test_an_unreadable_estimate_is_asked_for_once_more(
    settings: dict[str, Any], calls: int
) -> None:
    plan = json.dumps({"steps": CHAIN})
    model = ScriptedChat(
        planner=lambda call: plan if call.role == "decompose" else "It is hard to say."
    )
    report = report_of(model, budget=TABLE, **settings)
    assert report["usage"]["by_node"]["estimate"]["calls"] == calls
    assert report["usage"]["output_tokens"] == model.output_tokens
    assert (report["level"], report["budget"]) == (3, 300)
    assert "unreadable_reply" in codes(report)


@pytest.mark.parametrize(
    ("given", "source", "roles"),
    [
        (QUESTION, "estimated", ["estimate", "decompose", "estimate"]),
        (QUESTION | {"level": 5}, "given", ["decompose", "estimate"]),
    ],
)
def test_the_planner_is_told_the_level_and_the_stream_where_it_comes_from(
    given: dict[str, Any], source: str, roles: list[Role]
) -> None:
    model = ScriptedChat(plan=CHAIN, level=5)
    *events, (_, final) = graph_of(model, **STEPWISE).stream(
        given, stream_mode=["custom", "values"]
    )
    told = [event for _, event in events if event.get("event") == "estimate"]
    assert [call.role for call in model.calls if call.role != "solve"] == roles
    assert all("level 5 of 5" in call.ask for call in model.calls if call.role == "decompose")
    assert {(event["level"], event["level_source"]) for event in told} == {(5, source)}
    assert final["report"]["level_source"] == source


@pytest.mark.parametrize("brief", [thinks_in_vain, lambda _: HTTPError(400, "minimum is 16")])
def test_a_model_that_cannot_answer_in_two_tokens_is_asked_for_the_level_in_full(
    brief: Script,
) -> None:
    model = ScriptedChat(planner=lambda call: brief(call) if call.brief else '{"level": 5}')
    report = report_of(model, method="global_budget", budget=TABLE)
    assert (report["level"], report["budget"]) == (5, 500)
    assert report["usage"]["output_tokens"] == model.output_tokens
