"""A node's own calls: capped, charged, answered as before when the node starts over."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, get_args

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from pb_graph import Budget, Settings
from pb_graph.errors import NoAnswerError
from pb_graph.graph import Node
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import Reply, run_sync
from pb_graph.run.parts import GraphParts
from pb_graph.run.run import Run
from pb_graph.settings import Context
from pb_graph.state import State
from pb_graph.types import Purpose
from tests.support.chat_model import HTTPError, ScriptedChat
from tests.support.graphs import QUESTION, Way, graph_of, run

both_ways = pytest.mark.parametrize("way", get_args(Way))
THREAD: Any = {"configurable": {"thread_id": "1"}}
PURPOSE = Purpose("work")


class CutOffHere(BaseException):
    """The end of the process, as far as a node can see."""


def graph_with(node: Any, model: ScriptedChat, **settings: Any) -> Any:  # noqa: ANN401
    """A graph of one node, which a newcomer wrote."""
    parts = GraphParts(Settings(**settings), {"solver": model})
    builder = StateGraph(State, context_schema=Context)
    builder.add_node("work", Node(node, parts, is_entry=True))
    builder.add_edge(START, "work")
    return builder.compile(checkpointer=InMemorySaver())


async def ask(run: Run, text: str) -> Reply:
    return await run.ask([HumanMessage(text)], CallOptions(50, purpose=PURPOSE))


def test_a_finished_call_is_not_paid_again_however_often_the_node_starts_over() -> None:
    starts: list[int] = []

    async def node(_: State, run: Run) -> State:
        starts.append(len(starts))
        for text in ("first", "second"):
            await ask(run, text)
        if len(starts) < 3:
            raise CutOffHere
        return {"answer": "done"}

    model, budget = ScriptedChat(solve="two words"), Budget(5000)
    graph = graph_with(node, model)
    with suppress(CutOffHere):
        graph.invoke(QUESTION, THREAD, context=Context(limit=Budget(5000)))
    with suppress(CutOffHere):
        graph.invoke(None, THREAD, context=Context(limit=budget))
    graph.invoke(None, THREAD, context=Context(limit=budget))
    assert [call.ask for call in model.calls] == ["first", "second"]
    assert budget.spent == 4  # a budget that did not see them counts them once


@both_ways
def test_no_call_may_cost_more_than_the_cutoff(way: Way) -> None:
    async def node(_: State, run: Run) -> State:
        return {"answer": (await run.ask([HumanMessage("?")], CallOptions(10**6))).text}

    model = ScriptedChat()
    run(graph_with(node, model, cutoff=50), QUESTION, way, config=THREAD)
    assert [call.cap for call in model.calls] == [50]


@pytest.mark.parametrize("waits", [lambda: asyncio.sleep(0), lambda: asyncio.sleep(1)])
def test_a_method_that_needs_an_event_loop_says_so_in_a_synchronous_run(waits: Any) -> None:  # noqa: ANN401
    async def method() -> None:
        await waits()

    with pytest.raises(RuntimeError, match="event loop"):
        run_sync(method())


@both_ways
@pytest.mark.parametrize("error", [HTTPError(404), ConnectionRefusedError()], ids=repr)
def test_a_server_that_will_not_answer_is_not_asked_again(error: Exception, way: Way) -> None:
    model = ScriptedChat(planner=error)
    with pytest.raises(NoAnswerError, match="was not asked again") as caught:
        run(graph_of(model, max_retries=0), QUESTION, way)
    assert len(model.calls) == 1
    assert str(caught.value).count("failed with") == 1
