"""Graphs and agents killed in the middle and resumed elsewhere: nothing is paid for twice."""
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

from pb_graph.prompts import FORCE_STEP
from tests.support.chat_model import CORRECTION, ScriptedChat, fumbling_script
from tests.support.fork_server import Forked
from tests.support.graphs import CHAIN, DIAMOND, QUESTION, graph_of, report_of, timeless

SCRIPT = """
import asyncio, json, sys
from pathlib import Path
from tests.integration.test_resumed import main
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


def process(
    folder: Path, given: dict[str, Any], script: str = SCRIPT
) -> tuple[int | None, str, str]:
    """Return how a run ended, and what it printed; warnings are errors in it."""
    ran = Forked(script, str(folder), json.dumps(given), strict=True)
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


# A run that is paused, resumed and read back where no more than plain types may be stored.
STRICT_RUN = """
import logging
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
    run = Forked(STRICT_RUN, strict=True)  # LANGGRAPH_STRICT_MSGPACK is set in all of them
    out, errors = run.communicate()
    assert out == "Final answer: 42 4 True\n", errors


REPAIRED = {"plan": CHAIN, "fumbles": True, "finished": 0, "durability": "sync"}


@pytest.mark.parametrize(
    "given",
    [
        {"plan": DIAMOND, "kill_at": "only that: Right?", "durability": "async", "finished": 2},
        REPAIRED | {"kill_at": CORRECTION},
        REPAIRED | {"kill_at": FORCE_STEP, "is_hosted": True},
    ],
    ids=["beside a sibling", "before a repair", "in a host"],
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


pytestmark = pytest.mark.integration

AGENT = """
import json, os, signal, sys
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from tests.support.chat_model import ScriptedChat
from tests.support.agents import ASK, THREAD, always
from tests.test_agent_units import pausing

folder, given = sys.argv[1], json.loads(sys.argv[2])

def note(kind, *figures):
    with open(folder + "/log.jsonl", "a") as log:
        log.write(json.dumps([kind, *figures]) + chr(10))

class Killed(ScriptedChat):
    def _generate(self, messages, *args, **kwargs):
        note("asked", len(messages))
        if len(self.calls) == given["kill_at"]:
            os.kill(os.getpid(), signal.SIGKILL)
        made = super()._generate(messages, *args, **kwargs)
        note("paid", len(messages), self.calls[-1].output_tokens)
        return made

with SqliteSaver.from_conn_string(folder + "/threads.db") as saver:
    agent = pausing(Killed(solve=always(40)), given["budget"], saver)
    state = agent.get_state(THREAD)
    asked = ASK if not state.next else Command(resume=given["resume"]) if state.interrupts else None
    out = agent.invoke(asked, THREAD, durability="sync")
    pauses = [found.value for found in out.get("__interrupt__", ())]
    print(json.dumps({"pauses": pauses, "spent": out["tokens_spent"]}), flush=True)
    if given["is_killed_after"]:
        os.kill(os.getpid(), signal.SIGKILL)
"""
BUDGET, RAISE = 400, 200


def agent_in(
    folder: Path, resume: dict[str, Any] | None = None, *, kill_at: int = -1, after: bool = False
) -> dict[str, Any] | None:
    """Run or resume the agent in a process that may be killed; return what it came to."""
    given = {"budget": BUDGET, "resume": resume, "kill_at": kill_at, "is_killed_after": after}
    code, out, errors = process(folder, given, AGENT)
    assert code == (-signal.SIGKILL if after or kill_at >= 0 else 0), errors
    told: dict[str, Any] | None = json.loads(out) if out else None
    return told


@pytest.mark.parametrize("kill_at", [0, 2])
def test_killed_at_a_call_it_pays_nothing_twice_and_loses_nothing(
    tmp_path: Path, kill_at: int
) -> None:
    raised = {"action": "raise", "by": RAISE}
    paused = agent_in(tmp_path, after=True)
    assert paused
    assert agent_in(tmp_path, raised, kill_at=kill_at) is None
    again = agent_in(tmp_path, raised, after=True)
    assert again
    assert again["pauses"][0]["total"] == paused["pauses"][0]["total"] + RAISE == BUDGET + RAISE
    ended = agent_in(tmp_path, {"action": "finish"})
    assert ended
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    paid = {size: tokens for kind, size, *tokens in log if kind == "paid"}
    assert len(paid) == sum(kind == "paid" for kind, *_ in log)
    assert sum(kind == "asked" for kind, *_ in log) == len(paid) + 1  # the one that was killed
    assert ended["pauses"] == []
    assert ended["spent"] == sum(tokens for (tokens,) in paid.values()) <= BUDGET + RAISE
