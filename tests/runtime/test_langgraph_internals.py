"""Private names of LangGraph and LangChain: here they are; without them only a nicety is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from pb_graph.runtime import langgraph_internals
from pb_graph.state import State

ROOT = Path(__file__).parents[2]
SHOWS = """
from pb_graph import Settings, build_graph
from langchain_core.language_models import FakeListChatModel
graph = build_graph(
    FakeListChatModel(responses=["forty two"]), settings=Settings(method="vanilla")
)
for piece, _ in graph.stream({"question": "?"}, stream_mode="messages"):
    print(piece.name, piece.text)
"""
"""What a host is shown of an answer, piece by piece."""
WITHOUT = f"""
import langgraph.pregel._messages as messages
import langgraph.pregel.main
del messages.StreamMessagesHandler
{SHOWS}
"""


def test_the_handlers_are_where_we_look_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert langgraph_internals.STREAMS, "LangGraph or LangChain has moved its stream handlers"
    exec(compile(SHOWS, "shows", "exec"), {})  # noqa: S102 -- our own code
    assert len(capsys.readouterr().out.splitlines()) > 1


def test_so_is_the_checkpointer() -> None:
    found: list[Any] = []

    def node(_: State) -> State:
        found.append(langgraph_internals.checkpointer())
        return {}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    saver = InMemorySaver()
    builder.compile(checkpointer=saver).invoke(
        {"question": "?"}, {"configurable": {"thread_id": "1"}}
    )
    assert found == [saver], "LangGraph has moved its checkpointer"


def test_without_the_handlers_an_answer_is_shown_as_a_whole() -> None:
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["plan_and_budget forty two"]
