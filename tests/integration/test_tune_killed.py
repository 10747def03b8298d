"""A tuning that is killed, and the same command again: the same result, and nothing paid twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import json, sys, zlib
from pathlib import Path
from optim.tune.gepa import Gepa
from tests.support.chat_model import ScriptedChat
from tests.support.tuning_world import (
    DEV, HELD_OUT, MINIMAL, PLAIN, THOROUGH, TRAIN, bench_in, original, reflector_of, world
)
from optim.tune import tune

model = world(seconds=float(sys.argv[2]))
# What it says depends on what it is asked, and not on how often it was started.
ideas = [PLAIN, THOROUGH, MINIMAL]
reflection = ScriptedChat(
    solve=lambda call: ideas[zlib.crc32(call.ask.encode()) % 3], seconds=float(sys.argv[2])
)
with bench_in(Path(sys.argv[1]), model, calls=150, concurrency=3) as bench:
    found = tune(
        bench, TRAIN[:10], DEV[:15], Gepa(), start=original(), held_out=HELD_OUT[:6],
        reflector=reflector_of(bench, reflection),
    )
print(json.dumps({
    "paid": model.output_tokens + reflection.output_tokens,
    "tokens": found.spent.tokens,
    "calls": found.spent.calls,
    "told": dict(found.candidate.instructions),
    "path": [trial.candidate.identity for trial in found.trials],
    "e3": [trial.standing.e3 for trial in found.trials],
    "verdict": found.verdict.reason,
}))
"""
ROOT = Path(__file__).parents[2]
JOURNALS = ("answers.jsonl", "plans.jsonl", "reflections.jsonl")


def start(folder: Path, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 -- our own code
        [sys.executable, "-c", SCRIPT, str(folder), str(seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def lines(folder: Path) -> dict[str, list[str]]:
    """What has been paid for so far, by journal; a torn last line does not count."""
    paths = {name: folder / name for name in JOURNALS}
    content = {name: path.read_text() if path.exists() else "" for name, path in paths.items()}
    return {
        name: [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        for name, text in content.items()
    }


def struck(folder: Path, answers: int, blow: signal.Signals) -> int:
    """Run until so many answers are finished, strike, and give how it ended."""
    process = start(folder, 0.15)
    while len(lines(folder)["answers.jsonl"]) < answers:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(blow)
    process.communicate(timeout=60)
    return process.returncode


def completed(folder: Path) -> dict[str, Any]:
    process = start(folder, 0.0)
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    document: dict[str, Any] = json.loads(out)
    return document


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run that nobody interrupts."""
    return completed(tmp_path_factory.mktemp("whole"))


def test_killed_twice_it_takes_the_same_way_and_pays_for_nothing_twice(
    tmp_path: Path, whole: dict[str, Any]
) -> None:
    assert struck(tmp_path, 9, signal.SIGKILL) == -signal.SIGKILL  # measuring the original
    assert struck(tmp_path, 32, signal.SIGKILL) == -signal.SIGKILL  # within GEPA
    before = lines(tmp_path)
    last = completed(tmp_path)
    after = lines(tmp_path)

    for name in JOURNALS:
        assert after[name][: len(before[name])] == before[name]
        keys = [json.loads(line)["key"] for line in after[name]]
        assert len(keys) == len(set(keys))
    assert len(after["answers.jsonl"]) == last["calls"] == whole["calls"]
    assert last["paid"] < whole["paid"] == whole["tokens"]
    for part in ("told", "path", "e3", "verdict", "tokens"):
        assert last[part] == whole[part]


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path, whole: dict[str, Any]) -> None:
    assert struck(tmp_path, 25, signal.SIGINT) in {-signal.SIGINT, 128 + signal.SIGINT, 1}
    last = completed(tmp_path)
    assert last["path"] == whole["path"]
    assert last["paid"] < whole["paid"]


def test_a_finished_run_is_repeated_for_nothing(tmp_path: Path, whole: dict[str, Any]) -> None:
    completed(tmp_path)
    again = completed(tmp_path)
    assert again["paid"] == 0
    assert again["path"] == whole["path"]
