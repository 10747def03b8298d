"""The state is plain JSON: any server can describe it, any checkpointer can keep it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest
from pydantic import TypeAdapter

from pb_graph import Report
from pb_graph.graph import graph
from pb_graph.state import Input, Output, SolveTask, State
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import QUESTION, graph_of

ROOT = Path(__file__).parent.parent

# A run that is interrupted, resumed and read back where nothing but plain types may be stored.
STRICT_RUN = """
import logging, warnings
warnings.simplefilter("error")
logging.raiseExceptions = True
logging.Handler.handle = lambda self, record: (_ for _ in ()).throw(RuntimeError(str(record.msg)))
logging.basicConfig(level=logging.WARNING)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import DIAMOND, QUESTION, graph_of
graph = graph_of(ScriptedChat(plan=DIAMOND), checkpointer=InMemorySaver(), review_plan=True)
thread = {"configurable": {"thread_id": "1"}}
graph.invoke(QUESTION, thread)
out = graph.invoke(Command(resume=True), thread)
states = list(graph.get_state_history(thread))
print(out["answer"], len(out["report"]["steps"]), len(states) > 6)
"""


def test_an_interrupted_run_is_stored_under_the_strictest_rules() -> None:
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-c", STRICT_RUN],
        cwd=ROOT,
        env={"LANGGRAPH_STRICT_MSGPACK": "true", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "Final answer: 42 4 True\n", done.stderr


@pytest.mark.parametrize("declared", [Input, Output, State, SolveTask, Report])
def test_every_declared_type_has_a_json_schema(declared: type) -> None:
    assert TypeAdapter(declared).json_schema()["properties"]


def test_a_server_can_describe_input_output_and_context() -> None:
    assert {"question", "messages", "level"} <= set(graph.get_input_jsonschema()["properties"])
    described = set(graph.get_output_jsonschema()["properties"])
    assert described == {"messages", "answer", "report", "structured_response"}
    context = graph.get_context_jsonschema()
    assert context
    assert set(context["properties"]) >= {"settings", "model", "planner"}
    assert (graph.name, graph.checkpointer) == ("plan_and_budget", None)


def test_a_new_question_finds_every_key_of_the_state_emptied_but_those_it_writes() -> None:
    own = set(get_type_hints(State)) - set(get_type_hints(Input))
    (first, *_) = graph_of(ScriptedChat()).stream(QUESTION, stream_mode="updates")
    assert own - set(first["intake"]) == {"report", "structured_response"}
