"""Killed in the middle of the steps and resumed in a new process: nothing is paid for twice."""
# ruff: noqa: ANN401 -- inherited signatures

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from pb_graph.prompts import FORCE_FINAL, FORCE_STEP
from tests.support.chat_model import CORRECTION, ScriptedChat, fumbling_script
from tests.support.fork_server import Forked
from tests.support.graphs import CHAIN, DIAMOND, QUESTION, graph_of, report_of, timeless

SCRIPT = """
import asyncio, json, sys
from pathlib import Path
from tests.integration.test_durability import main
asyncio.run(main(Path(sys.argv[1]), json.loads(sys.argv[2])))
"""


class LoggedChat(ScriptedChat):
    """A scripted model that logs each call before it is answered, and kills its process at one."""

    folder: Path
    kill_at: str = ""
    finished: int = 0
    """Steps whose results are stored first."""

    async def _agenerate(self, messages: Any, *given: Any, **options: Any) -> Any:
        asked = str(messages[-1].text)
        with (self.folder / f"calls-{os.getpid()}.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(asked) + "\n")
        if self.kill_at and self.kill_at in asked:
            while stored_results(self.folder) < self.finished:  # noqa: ASYNC110 -- in a file
                await asyncio.sleep(0.02)
            os.kill(os.getpid(), signal.SIGKILL)
        return await super()._agenerate(messages, *given, **options)


class Host(TypedDict):
    """What a host shares with the graph within it."""

    question: str
    report: dict[str, Any]


async def main(folder: Path, given: dict[str, Any]) -> None:
    """Answer the question, or go on where the thread stopped; print the report."""
    kill = {name: given[name] for name in ("kill_at", "finished")}
    model = LoggedChat(folder=folder, **kill, **fumbling_script(given))
    thread: Any = {"configurable": {"thread_id": "1"}}
    async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.db")) as saver:
        is_hosted = given.get("is_hosted", False)
        graph = graph_of(model, checkpointer=None if is_hosted else saver, execution="stepwise")
        if is_hosted:
            host: Any = StateGraph(Host)
            host.add_node("solver", graph)
            host.add_edge(START, "solver")
            graph = host.compile(checkpointer=saver)
        question = QUESTION if given["kill_at"] else None
        out = await graph.ainvoke(question, thread, durability=given["durability"])
    print(json.dumps(out["report"]))  # noqa: T201 -- for the test


def process(folder: Path, given: dict[str, Any]) -> tuple[int | None, str, str]:
    """Return how a run ended, and what it printed; warnings are errors in it."""
    ran = Forked(SCRIPT, str(folder), json.dumps(given), strict=True)
    out, errors = ran.communicate()
    return ran.returncode, out, errors


def calls(folder: Path) -> list[list[str]]:
    """Return what was asked in each process, the older first."""
    logs = sorted(folder.glob("calls-*.jsonl"), key=lambda log: log.stat().st_mtime)
    return [[json.loads(line) for line in log.read_text().splitlines()] for log in logs]


def stored_results(folder: Path) -> int:
    """Return the number of finished steps that the checkpointer has written down."""
    with closing(sqlite3.connect(folder / "threads.db")) as threads:
        (count,) = threads.execute(
            "SELECT count(*) FROM writes "
            "WHERE channel = 'results' AND instr(value, CAST('finish' AS BLOB)) "
            "AND checkpoint_id IN (SELECT checkpoint_id FROM checkpoints)"
        ).fetchone()
    return int(count)


REPAIRED = {"plan": CHAIN, "fumbles": True, "finished": 0, "durability": "sync"}


@pytest.mark.parametrize(
    "given",
    [
        {"plan": CHAIN, "kill_at": "only that: Third?", "durability": "sync", "finished": 2},
        {"plan": DIAMOND, "kill_at": "only that: Right?", "durability": "async", "finished": 2},
        REPAIRED | {"kill_at": CORRECTION},
        REPAIRED | {"kill_at": FORCE_STEP, "is_hosted": True},
        REPAIRED | {"kill_at": FORCE_FINAL},
    ],
    ids=["in a chain", "beside a sibling", "before a repair", "in a host", "before the answer"],
)
def test_a_killed_run_goes_on_where_it_was_and_ends_like_one_that_nobody_killed(
    given: dict[str, Any], tmp_path: Path
) -> None:
    code, _, errors = process(tmp_path, given)
    assert code == -signal.SIGKILL, errors
    code, out, errors = process(tmp_path, given | {"kill_at": ""})
    assert code == 0, errors
    whole = ScriptedChat(**fumbling_script(given))
    expected = report_of(whole, way="ainvoke", execution="stepwise")
    assert timeless(json.loads(out)) == timeless(expected)
    before, after = calls(tmp_path)
    unfinished = [asked for asked in before if given["kill_at"] in asked]
    assert len(unfinished) == 1
    assert sorted(before + after) == sorted([*(call.ask for call in whole.calls), *unfinished])
