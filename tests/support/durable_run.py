"""One question in a process of its own, which a test kills and starts again on the same thread.

Each call to the model is noted in a log before it is answered. A call whose last words contain
``hang_at`` is never answered.
"""
# ruff: noqa: ANN401 -- inherited signatures

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from tests.support.chat_model import Call, ScriptedChat, runs_on
from tests.support.graphs import QUESTION, graph_of

FOREVER = 3600
UNREADABLE = "..."
CORRECTION = "Your last reply could not be used"


def script(given: dict[str, Any]) -> dict[str, Any]:
    """What the model says: with ``fumbles``, every node needs a second call."""
    plays: dict[str, Any] = {"plan": given["plan"]}
    if not given.get("fumbles"):
        return plays
    well = ScriptedChat(**plays)

    def corrected(call: Call) -> str:
        return well._planned(call) if CORRECTION in call.ask else UNREADABLE

    def finishes(call: Call) -> Any:
        return "Final answer: 42" if call.forced else runs_on(call)

    return plays | {"planner": corrected, "solve": finishes}


class LoggedChat(ScriptedChat):
    """A scripted model that leaves a trace of each call."""

    log: str
    hang_at: str = ""

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        asked = str(messages[-1].text)
        self._note(asked)
        if self.hang_at and self.hang_at in asked:
            await asyncio.sleep(FOREVER)
        return await super()._agenerate(messages, stop, run_manager, **kwargs)

    def _note(self, asked: str) -> None:
        with Path(self.log).open("a", encoding="utf-8") as log:
            log.write(json.dumps(asked) + "\n")


class Host(TypedDict):
    """What a host shares with the graph within it."""

    question: str
    report: dict[str, Any]


def host_of(graph: Any, saver: AsyncSqliteSaver) -> Any:
    """A host with a checkpointer, and the graph within it."""
    builder: Any = StateGraph(Host)
    builder.add_node("solver", graph)
    builder.add_edge(START, "solver")
    return builder.compile(checkpointer=saver)


async def main(folder: Path, given: dict[str, Any]) -> None:
    """Answer the question, or go on where the thread stopped; print the report."""
    model = LoggedChat(
        log=str(folder / f"calls-{os.getpid()}.jsonl"),
        hang_at=given["hang_at"],
        **script(given),
    )
    thread: Any = {"configurable": {"thread_id": "1"}}
    async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.db")) as saver:
        hosted = given.get("hosted", False)
        graph = graph_of(model, checkpointer=None if hosted else saver, execution="stepwise")
        graph = host_of(graph, saver) if hosted else graph
        question = None if given["resumes"] else QUESTION
        out = await graph.ainvoke(question, thread, durability=given["durability"])
    print(json.dumps(out["report"]))  # noqa: T201 -- for the test
