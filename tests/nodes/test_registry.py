"""Whose models answer: the graph's, or the run's own, whatever the host's context is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda

from pb_graph import (
    Context,
    InputError,
    ModelSetupError,
    PlannerProgramError,
    Settings,
    build_graph,
)
from pb_graph.budget import PerLevel
from pb_graph.planner.planner import Planner
from pb_graph.runtime import registry
from tests.support.chat_model import ScriptedChat, with_schema
from tests.support.graphs import QUESTION, graph_of, run

BASE: dict[str, Any] = {"method": "global_budget", "budget": 111, "enforcement": "cap"}
OWN = Settings(budget=222)


@dataclass
class Host:
    """A host's own context."""

    user: str = "someone"
    plan_and_budget: Any = None


@pytest.mark.parametrize(
    ("context", "budget"),
    [
        (None, 111),
        ({}, 111),
        (Context(), 111),
        (Context(settings=OWN), 222),
        ({"settings": OWN}, 222),
        ({"settings": {"budget": 222}}, 222),
        (Context(settings=Settings(budget=PerLevel(initial=200, per_level=5))), 215),
    ],
)
def test_a_run_may_change_settings(context: object, budget: int) -> None:
    graph = graph_of(ScriptedChat(), **BASE)
    report = run(graph, QUESTION | {"level": 3}, context=context)["report"]
    assert report["budget"] == budget
    assert report["method"] == "global_budget"


@pytest.mark.parametrize(
    ("found", "budget"),
    [
        (Host(), 111),
        (Host(plan_and_budget=Context(settings=OWN)), 222),
        (Host(plan_and_budget={"settings": {"budget": 222}}), 222),
        ({"user": "someone"}, 111),
        ({"settings": "the host's own"}, 111),
        ({"plan_and_budget": {"settings": {"budget": 222}, "unknown": 1}}, 222),
    ],
)
def test_our_part_is_found_in_a_hosts_context(found: object, budget: int) -> None:
    settings = Context.resolve(found).settings_over(Settings(**BASE))
    assert settings.budget == budget


def test_inside_a_host_graph_its_context_reaches_us() -> None:
    from langgraph.graph import START, MessagesState, StateGraph  # noqa: PLC0415

    model = ScriptedChat()
    builder = StateGraph(MessagesState, context_schema=Host)
    builder.add_node("solver", graph_of(model, **BASE))
    builder.add_edge(START, "solver")
    host: Any = builder.compile()
    asked = {"messages": [("human", "How many?")]}
    host.invoke(asked, context=Host(plan_and_budget=Context(settings=OWN)))
    host.invoke(asked, context=Host())
    assert [call.cap for call in model.solving()] == [222, 111]


def test_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InputError, match="unknown setting budgt; there are: method"):
        run(graph_of(ScriptedChat(), **BASE), context={"settings": {"budgt": 1}})


def test_one_model_may_plan_and_another_solve() -> None:
    solver, planner = ScriptedChat(), ScriptedChat()
    graph = build_graph(
        solver,
        planner=planner,
        settings=Settings(planning="two_call", schedule="weighted"),
        cap_policy=with_schema,
    )
    run(graph)
    assert {call.role for call in planner.calls} == {"decompose", "estimate"}
    assert {call.role for call in solver.calls} == {"solve"}


def test_a_run_may_name_its_own_models(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"fake:solver": ScriptedChat(), "fake:planner": ScriptedChat()}
    monkeypatch.setattr(registry, "resolve", lambda name, _: made[name])
    given = ScriptedChat()
    run(graph_of(given), context=Context(model="fake:solver", planner="fake:planner"))
    assert given.calls == []
    assert {call.role for call in made["fake:solver"].calls} == {"solve"}
    assert "solve" not in {call.role for call in made["fake:planner"].calls}


def test_a_tuned_planner_is_used_and_may_be_loaded_from_a_file(tmp_path: Path) -> None:
    tuned = Planner()
    signature = tuned.decompose.signature.with_instructions("Think of whales.")
    tuned.decompose.signature = signature
    tuned.save(tmp_path / "planner.json")
    for program in (tuned, tmp_path / "planner.json", str(tmp_path / "planner.json")):
        model = ScriptedChat()
        settings = Settings(method="planned_vanilla", planning="two_call")
        run(build_graph(model, settings=settings, planner_program=program))
        assert "Think of whales." in str(model.calls[0].messages)


def test_a_missing_planner_program_shows_when_the_graph_is_built(tmp_path: Path) -> None:
    with pytest.raises(PlannerProgramError, match="Cannot read"):
        build_graph(ScriptedChat(), planner_program=tmp_path / "none.json")


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (RunnableLambda(len), "RunnableLambda is no chat model"),
        (ScriptedChat().bind(stop=["."]), "is no chat model.*instead of one wrapped by"),
        (42, "int is no chat model"),
        ("gpt-5", "'gpt-5' names no model"),
        ("nobody:knows", "Cannot set up 'nobody:knows'"),
        ("openai:gpt-5-mini", "OPENAI_API_KEY"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_model_that_cannot_be_used_shows_when_the_graph_is_built(
    model: Any,  # noqa: ANN401
    complaint: str,
) -> None:
    with pytest.raises(ModelSetupError, match=complaint):
        build_graph(model)


def test_the_callers_model_is_left_as_it_is() -> None:
    model = ScriptedChat()
    before = model.model_dump(exclude={"record"})
    run(graph_of(model))
    assert model.model_dump(exclude={"record"}) == before
