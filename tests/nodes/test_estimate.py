"""Estimation asks for no more than the budget is made of, and corrects what it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.chat_model import HTTPError, Role, Script, ScriptedChat, thinks_in_vain
from tests.support.graphs import CHAIN, QUESTION, codes, report_of

KNOWN = QUESTION | {"level": 4}
STEPWISE: dict[str, Any] = {
    "method": "plan_and_budget",
    "planning": "two_call",
    "schedule": "weighted",
}
TABLE = {"rule": "level_table", "tokens": {1: 100, 2: 200, 3: 300, 4: 400, 5: 500}}


@pytest.mark.parametrize(
    ("given", "settings", "roles"),
    [
        (QUESTION, {"method": "vanilla"}, []),
        (QUESTION, {"method": "global_budget", "budget": TABLE}, ["estimate"]),
        (KNOWN, {"method": "global_budget", "budget": TABLE}, []),
        (QUESTION, {"method": "global_budget", "budget": 300}, []),
        (QUESTION, {"method": "planned_global_budget", "budget": TABLE}, ["estimate", "decompose"]),
        (KNOWN, {**STEPWISE, "budget": TABLE}, ["decompose", "estimate"]),
        (QUESTION, {**STEPWISE, "budget": 300}, ["estimate", "decompose", "estimate"]),
        (QUESTION, {"method": "planned_vanilla"}, ["estimate", "decompose"]),
        (QUESTION, {"plan_from": None, "budget": 300}, []),
        (KNOWN, {**STEPWISE, "schedule": "uniform", "budget": TABLE}, ["decompose"]),
        (QUESTION, {**STEPWISE, "planning": "fused", "budget": TABLE}, ["estimate", "fused"]),
        (KNOWN, {**STEPWISE, "planning": "fused", "budget": TABLE}, ["fused"]),
    ],
)
def test_only_what_is_needed_and_not_known_is_estimated(
    given: dict[str, Any], settings: dict[str, Any], roles: list[Role]
) -> None:
    model = ScriptedChat(plan=CHAIN, level=2)
    report = report_of(model, given, **settings)
    assert [call.role for call in model.calls if call.role != "solve"] == roles
    if settings.get("budget") == TABLE:
        assert report["budget"] == (400 if given is KNOWN else 200)


@pytest.mark.parametrize("says", [HTTPError(503), "It is hard to say."], ids=["down", "unreadable"])
def test_a_level_that_the_planner_does_not_give_is_reported_as_the_default(says: Any) -> None:  # noqa: ANN401
    report = report_of(ScriptedChat(planner=says), method="global_budget", budget=TABLE)
    assert (report["level"], report["level_source"], report["budget"]) == (3, "default", 300)
    said = [warning["message"] for warning in report["warnings"]]
    assert said[-1] == "estimate: no level: 3 assumed"
    assert not any("None" in message for message in said)


def test_an_unreadable_estimate_is_asked_for_once_more() -> None:
    plan = json.dumps({"steps": CHAIN})
    model = ScriptedChat(
        planner=lambda call: plan if call.role == "decompose" else "It is hard to say."
    )
    report = report_of(model, budget=TABLE, **STEPWISE)
    assert report["usage"]["by_node"]["estimate"]["calls"] == 5  # the level, then the grades
    assert report["usage"]["output_tokens"] == model.output_tokens
    assert (report["level"], report["budget"]) == (3, 300)
    assert "unreadable_reply" in codes(report)


@pytest.mark.parametrize("brief", [thinks_in_vain, lambda _: HTTPError(400, "minimum is 16")])
def test_a_model_that_cannot_answer_in_two_tokens_is_asked_for_the_level_in_full(
    brief: Script,
) -> None:
    model = ScriptedChat(planner=lambda call: brief(call) if call.brief else '{"level": 5}')
    report = report_of(model, method="global_budget", budget=TABLE)
    assert (report["level"], report["budget"]) == (5, 500)
    assert report["usage"]["output_tokens"] == model.output_tokens
