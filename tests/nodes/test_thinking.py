"""When a model may think as it likes, when only within its budget, and when not at all."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel

from pb_graph import Settings, build_graph
from pb_graph.models.options import CallOptions
from tests.support.chat_model import Call, Said, Script, ScriptedChat, thinks_in_vain, with_schema
from tests.support.graphs import CHAIN, run

BUDGETED: dict[str, Any] = {"execution": "stepwise", "plan_from": 1, "budget": 800}


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


@pytest.mark.parametrize("enforcement", ["cap", "force"])
def test_an_enforced_budget_bounds_thinking(enforcement: str) -> None:
    assert modes("ok", **BUDGETED, enforcement=enforcement)[0] == ["bounded"] * len(CHAIN)


def test_a_budget_that_is_only_said_does_not() -> None:
    assert modes("ok", **BUDGETED, enforcement="prompt")[0] == ["free"] * len(CHAIN)


@pytest.mark.parametrize("method", ["vanilla", "planned_vanilla"])
def test_methods_without_a_budget_leave_thinking_alone(method: str) -> None:
    assert modes("ok", method=method)[0] == ["free"]


def test_when_thinking_ate_it_all_a_forced_ending_goes_without() -> None:
    thinking, report = modes(until_switched_off, **BUDGETED, enforcement="force")
    assert thinking == ["bounded", "off"] * len(CHAIN)
    assert {step["finish"] for step in report["steps"]} == {"forced"}
    assert all("42" in step["answer"] for step in report["steps"])
