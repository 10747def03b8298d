"""A run that is killed, and the same command again: exact, whenever the blow falls."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from optim.records import Record, read_records
from tests.support.evaluations import leaks_collected, tolerates_inspect

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = tolerates_inspect

SCRIPT = """
import json, sys
from pathlib import Path
from tests.support.chat_model import ScriptedChat
from tests.support.evaluations import evaluated, fails_on_the_hardest

model = ScriptedChat(solve=fails_on_the_hardest, seconds=float(sys.argv[2]), plan=["One?", "Two?"])
found = evaluated(
    model, Path(sys.argv[1]), methods="vanilla,cosine,stepwise", epochs=2, concurrency=3
)
print(json.dumps({"paid": model.output_tokens, "spent": found.spent, "n": len(found.records)}))
"""
ANSWERS = 30
ROOT = Path(__file__).parents[2]


def start(folder: Path, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 -- our own code
        [sys.executable, "-c", SCRIPT, str(folder), str(seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def finished(folder: Path) -> list[dict[str, Any]]:
    """The answers that have been paid for so far."""
    journal = folder / "answers.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True) if journal.exists() else []
    return [json.loads(line)["entry"] for line in lines if line.endswith(b"\n")]


def struck(folder: Path, after: int, blow: signal.Signals) -> int:
    """Run until so many answers are finished, strike, and give how it ended."""
    process = start(folder, 0.15)
    while len(finished(folder)) < after:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(blow)
    process.communicate(timeout=60)
    return process.returncode


def completed(folder: Path) -> dict[str, int]:
    process = start(folder, 0.0)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    document: dict[str, int] = json.loads(out)
    return document


def figures(records: list[Record]) -> list[tuple[Any, ...]]:
    return sorted(
        (r.method, r.question, r.epoch, str(r.score), r.tokens, r.output) for r in records
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """A run that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, completed(folder)


def test_killed_twice_it_ends_like_a_run_that_nobody_killed(
    tmp_path: Path, whole: tuple[Path, dict[str, int]]
) -> None:
    assert struck(tmp_path, 4, signal.SIGKILL) == -signal.SIGKILL
    assert struck(tmp_path, 11, signal.SIGKILL) == -signal.SIGKILL
    before = finished(tmp_path)
    last = completed(tmp_path)
    after = finished(tmp_path)

    assert after[: len(before)] == before
    keys = [entry["fingerprint"] for entry in after]
    assert len(keys) == len(set(keys)) == last["n"] == ANSWERS  # none was paid for twice
    assert figures(read_records(tmp_path)) == figures(read_records(whole[0]))
    assert last["spent"] == whole[1]["spent"] == whole[1]["paid"]
    assert last["paid"] < whole[1]["paid"]


def test_unfinished_logs_are_replaced_and_not_left_beside(tmp_path: Path) -> None:
    struck(tmp_path, 6, signal.SIGKILL)
    assert len(list(tmp_path.glob("*.eval"))) == 3
    completed(tmp_path)
    assert len(list(tmp_path.glob("*.eval"))) == 3


def test_the_logs_of_a_killed_run_can_be_read(tmp_path: Path) -> None:
    struck(tmp_path, 12, signal.SIGKILL)
    records = read_records(tmp_path)
    known = {(e["method"], e["question"], e["epoch"]) for e in finished(tmp_path)}
    assert {(r.method, r.question, r.epoch) for r in records} <= known
    assert records


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path, whole: tuple[Path, dict[str, int]]) -> None:
    assert struck(tmp_path, 6, signal.SIGINT) in {-signal.SIGINT, 128 + signal.SIGINT}
    completed(tmp_path)
    assert figures(read_records(tmp_path)) == figures(read_records(whole[0]))


def test_two_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    first = start(tmp_path, 0.3)
    while not finished(tmp_path):
        time.sleep(0.01)
    second = start(tmp_path, 0.0)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "another process is running an evaluation in" in err
    first.communicate(timeout=120)
    assert first.returncode == 0
