"""Private names of LangGraph and LangChain: here they are; without them only a nicety is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from pb_graph.run import internals
from pb_graph.state import State

ROOT = Path(__file__).parents[2]


def test_so_is_the_checkpointer() -> None:
    found: list[Any] = []

    def node(_: State) -> State:
        found.append(internals.checkpointer())
        return {}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    saver = InMemorySaver()
    builder.compile(checkpointer=saver).invoke(
        {"question": "?"}, {"configurable": {"thread_id": "1"}}
    )
    assert found == [saver], "LangGraph has moved its checkpointer"
