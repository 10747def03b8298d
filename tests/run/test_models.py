"""Whose models answer: the graph's, or the run's own, whatever the host's context is."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda

from pb_graph import BudgetedChatModel, Context, ModelSetupError, Settings, build_graph
from pb_graph.budget import PerLevel
from tests.support.chat_model import ScriptedChat, with_schema
from tests.support.graphs import QUESTION, graph_of, run

BASE: dict[str, Any] = {"method": "global_budget", "budget": 111, "reserve": 0}
OWN = Settings(budget=222)


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


def test_a_run_may_name_its_own_models(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"fake:solver": ScriptedChat(), "fake:planner": ScriptedChat()}
    monkeypatch.setattr("pb_graph.run.parts.resolve", lambda name, _: made[name])
    given = ScriptedChat()
    run(graph_of(given), context=Context(model="fake:solver", planner="fake:planner"))
    assert given.calls == []
    assert {call.role for call in made["fake:solver"].calls} == {"solve"}
    assert "solve" not in {call.role for call in made["fake:planner"].calls}


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (RunnableLambda(len), "RunnableLambda is not a chat model"),
        (ScriptedChat() | RunnableLambda(len), "RunnableSequence is not a chat model"),
        (ScriptedChat().with_retry(), r"is not a chat model\..*with_fallbacks"),
        (ScriptedChat().bind_tools([abs]), r"tools in build_graph\(tools="),
        (42, "int is not a chat model"),
        (BudgetedChatModel(model=ScriptedChat(), budget=100), "reserve all tokens twice"),
        ("gpt-5", "'gpt-5' is not the name of a model"),
        ("nobody:knows", "no provider is called 'nobody'"),
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


def test_each_role_may_have_a_model_of_its_own() -> None:
    models = {
        name: ScriptedChat(levels=[1, 5]) for name in ("model", "planner", "estimator", "easy")
    }
    settings = Settings(execution="stepwise", planning="two_call", plan_from=1)
    graph = build_graph(**models, settings=settings, cap_policy=with_schema)
    run(graph)
    assert {name: [call.role for call in model.calls] for name, model in models.items()} == {
        "planner": ["decompose"],
        "estimator": ["estimate", "estimate"],
        "easy": ["solve"],
        "model": ["solve"],
    }
    assert "What is given?" in models["easy"].calls[0].ask


async def test_an_event_loop_goes_on_while_a_local_model_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(*_: object) -> ScriptedChat:
        time.sleep(0.5)
        return ScriptedChat()

    monkeypatch.setattr("pb_graph.run.parts.resolve", load)
    graph = build_graph("local:smollm2-135m", settings={"method": "vanilla"}, limit=1000)
    first = asyncio.create_task(graph.ainvoke(QUESTION))
    await asyncio.sleep(0.2)
    second, lags = asyncio.create_task(graph.ainvoke(QUESTION)), [0.0]
    while not second.done():
        before = time.perf_counter()
        await asyncio.sleep(0.01)
        lags.append(time.perf_counter() - before)
    assert (await first)["answer"] == (await second)["answer"]
    assert max(lags) < 0.25
