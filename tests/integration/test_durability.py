"""Killed in the middle of the steps and resumed in a new process: nothing is paid for twice.

Each call to the model is noted in a log before it is answered. A call whose last words contain
``hang_at`` is never answered.
"""
# ruff: noqa: ANN401, ASYNC230 -- inherited signatures; a short line of a log

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from pb_graph.prompts import FORCE_FINAL, FORCE_STEP
from tests.support.chat_model import CORRECTION, ScriptedChat, fumbling_script
from tests.support.fork_server import PATIENCE, Forked, forked
from tests.support.graphs import CHAIN, DIAMOND, QUESTION, graph_of, report_of, timeless

SCRIPT = """
import asyncio, json, sys
from pathlib import Path
from tests.integration.test_durability import main
asyncio.run(main(Path(sys.argv[1]), json.loads(sys.argv[2])))
"""


class LoggedChat(ScriptedChat):
    """A scripted model that leaves a trace of each call."""

    log: str
    hang_at: str = ""

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        asked = str(messages[-1].text)
        with Path(self.log).open("a", encoding="utf-8") as log:
            log.write(json.dumps(asked) + "\n")
        if self.hang_at and self.hang_at in asked:
            await asyncio.Event().wait()
        return await super()._agenerate(messages, stop, run_manager, **kwargs)


class Host(TypedDict):
    """What a host shares with the graph within it."""

    question: str
    report: dict[str, Any]


async def main(folder: Path, given: dict[str, Any]) -> None:
    """Answer the question, or go on where the thread stopped; print the report."""
    model = LoggedChat(
        log=str(folder / f"calls-{os.getpid()}.jsonl"),
        hang_at=given["hang_at"],
        **fumbling_script(given),
    )
    thread: Any = {"configurable": {"thread_id": "1"}}
    async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.db")) as saver:
        is_hosted = given.get("is_hosted", False)
        graph = graph_of(model, checkpointer=None if is_hosted else saver, execution="stepwise")
        if is_hosted:
            host: Any = StateGraph(Host)
            host.add_node("solver", graph)
            host.add_edge(START, "solver")
            graph = host.compile(checkpointer=saver)
        question = None if given["resumes"] else QUESTION
        out = await graph.ainvoke(question, thread, durability=given["durability"])
    print(json.dumps(out["report"]))  # noqa: T201 -- for the test


def start(folder: Path, given: dict[str, Any]) -> Forked:
    """The server has LangGraph store plain types only; here warnings are errors, too."""
    return forked(SCRIPT, str(folder), json.dumps(given), strict=True)


def calls(folder: Path) -> list[list[str]]:
    """What was asked in each process, the older first."""
    logs = sorted(folder.glob("calls-*.jsonl"), key=lambda log: log.stat().st_mtime)
    return [[json.loads(line) for line in log.read_text().splitlines()] for log in logs]


def stored_results(folder: Path) -> int:
    """Finished steps that the checkpointer has written down."""
    with closing(sqlite3.connect(folder / "threads.db")) as threads:
        (count,) = threads.execute(
            "SELECT count(*) FROM writes "
            "WHERE channel = 'results' AND instr(value, CAST('finish' AS BLOB)) "
            "AND checkpoint_id IN (SELECT checkpoint_id FROM checkpoints)"
        ).fetchone()
    return int(count)


def killed(folder: Path, given: dict[str, Any]) -> None:
    """Run until a call hangs and so many steps are stored, and strike."""
    process = start(folder, {**given, "resumes": False})
    given_up = time.monotonic() + PATIENCE
    try:
        while not _hangs(folder, given["hang_at"]) or stored_results(folder) < given["finished"]:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < given_up, calls(folder)
            time.sleep(0.02)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL


def resumed(folder: Path, given: dict[str, Any]) -> dict[str, Any]:
    """The report of the same run, gone on with in a new process that nobody kills."""
    process = start(folder, {**given, "hang_at": "", "resumes": True})
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "Deserializing" not in errors
    report: dict[str, Any] = json.loads(out)
    return timeless(report)


def _hangs(folder: Path, hang_at: str) -> bool:
    return any(hang_at in asked for process in calls(folder) for asked in process)


REPAIRED = {"plan": CHAIN, "fumbles": True, "finished": 0}


@pytest.mark.parametrize(
    "given",
    [
        {"plan": CHAIN, "hang_at": "only that: Third?", "durability": "sync", "finished": 2},
        {"plan": DIAMOND, "hang_at": "only that: Right?", "durability": "async", "finished": 2},
        REPAIRED | {"hang_at": CORRECTION, "durability": "sync"},
        REPAIRED | {"hang_at": FORCE_STEP, "durability": "sync", "is_hosted": True},
        REPAIRED | {"hang_at": FORCE_FINAL, "durability": "async"},
    ],
    ids=["in a chain", "beside a sibling", "before a repair", "in a host", "before the answer"],
)
def test_a_killed_run_goes_on_where_it_was_and_ends_like_one_that_nobody_killed(
    given: dict[str, Any], tmp_path: Path
) -> None:
    killed(tmp_path, given)
    report = resumed(tmp_path, given)
    whole = ScriptedChat(**fumbling_script(given))
    assert report == timeless(report_of(whole, way="ainvoke", execution="stepwise"))
    before, after = calls(tmp_path)
    unfinished = [asked for asked in before if given["hang_at"] in asked]
    assert len(unfinished) == 1
    assert sorted(before + after) == sorted([*(call.ask for call in whole.calls), *unfinished])
