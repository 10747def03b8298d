"""Killed in the middle of the steps and resumed in a new process: nothing is paid for twice."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pb_graph.prompts import FORCE_FINAL, FORCE_STEP
from tests.support.chat_model import ScriptedChat
from tests.support.durable_run import CORRECTION, script
from tests.support.fork_server import PATIENCE, Forked, forked
from tests.support.graphs import CHAIN, DIAMOND, report_of, timeless

SCRIPT = """
import asyncio, json, sys
from pathlib import Path
from tests.support.durable_run import main
asyncio.run(main(Path(sys.argv[1]), json.loads(sys.argv[2])))
"""


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


def killed(folder: Path, given: dict[str, Any], finished: int = 0) -> None:
    """Run until a call hangs and so many steps are stored, and strike."""
    process = start(folder, {**given, "resumes": False})
    given_up = time.monotonic() + PATIENCE
    try:
        while not _hangs(folder, given["hang_at"]) or stored_results(folder) < finished:
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


@pytest.mark.parametrize(
    ("plan", "hang_at", "finished", "durability"),
    [
        pytest.param(CHAIN, "only that: Third?", 2, "sync", id="in-a-chain"),
        pytest.param(DIAMOND, "only that: Right?", 2, "async", id="beside-a-finished-sibling"),
    ],
)
def test_a_killed_run_goes_on_where_it_was(
    plan: tuple[str, ...], hang_at: str, finished: int, durability: str, tmp_path: Path
) -> None:
    given = {"plan": plan, "hang_at": hang_at, "durability": durability}
    killed(tmp_path, given, finished)
    assert_only_the_unfinished_is_asked_again(tmp_path, given)


@pytest.mark.parametrize("hosted", [False, True], ids=["by-itself", "within-a-host"])
@pytest.mark.parametrize(
    ("hang_at", "durability"),
    [
        pytest.param(CORRECTION, "sync", id="before-the-planners-repair"),
        pytest.param(FORCE_STEP, "sync", id="before-a-forced-ending"),
        pytest.param(FORCE_FINAL, "async", id="before-the-forced-answer"),
    ],
)
def test_a_call_that_was_finished_is_not_made_again_when_its_node_is(
    hang_at: str, durability: str, hosted: bool, tmp_path: Path
) -> None:
    given = {
        "plan": CHAIN,
        "fumbles": True,
        "hang_at": hang_at,
        "durability": durability,
        "hosted": hosted,
    }
    killed(tmp_path, given)
    assert_only_the_unfinished_is_asked_again(tmp_path, given)


def assert_only_the_unfinished_is_asked_again(folder: Path, given: dict[str, Any]) -> None:
    """And the report is that of a run which nobody has cut off."""
    report = resumed(folder, given)
    whole = ScriptedChat(**script(given))
    assert report == timeless(report_of(whole, way="ainvoke", execution="stepwise"))
    before, after = calls(folder)
    unfinished = [asked for asked in before if given["hang_at"] in asked]
    assert len(unfinished) == 1
    assert sorted(before + after) == sorted([*(call.ask for call in whole.calls), *unfinished])
