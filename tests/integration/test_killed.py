"""Evaluations and tunings that are killed and started again: exact, and nothing paid twice."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from optim.records import Record, read_records
from tests.support.evaluations import leaks_collected, paid_replies, tolerates_inspect
from tests.support.fork_server import Forked

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = [pytest.mark.integration, *tolerates_inspect]

EVALUATION = """
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
TUNING = """
import json, sys, zlib
from optim.tuning import GraphProgram, tune
from tests.support.chat_model import ScriptedChat, with_schema
from tests.support.tuning_world import DEV, HELD_OUT, MINIMAL, PLAIN, THOROUGH, TRAIN, Exact, world

model = world(seconds=float(sys.argv[2]))
# What it says depends on what it is asked, and not on how often it was started.
ideas = [PLAIN, THOROUGH, MINIMAL]
reflection = ScriptedChat(
    solve=lambda call: ideas[zlib.crc32(call.ask.encode()) % 3], seconds=float(sys.argv[2])
)
program = GraphProgram(
    model, settings={"method": "planned_vanilla"}, cap_policy=with_schema
)
found = tune(
    program, TRAIN[:10], DEV[:15], held_out=HELD_OUT[:6], scorer=Exact(), optimizer="gepa",
    reflection_model=reflection, budget=150, concurrency=3, run_dir=sys.argv[1],
).search
print(json.dumps({
    "paid": model.output_tokens + reflection.output_tokens,
    "tokens": found.evaluator.replies.spent,
    "calls": found.evaluator.answers,
    "told": dict(found.candidate.instructions),
    "path": [trial.candidate.identity for trial in found.trials],
    "e3": [trial.e3 for trial in found.trials],
    "verdict": found.verdict.reason,
}))
"""


def start(script: str, folder: Path, seconds: float) -> Forked:
    """Begin a run in a folder, whose model calls take so many seconds."""
    return Forked(script, str(folder), str(seconds))


def struck(script: str, folder: Path, replies: int, blow: signal.Signals) -> int:
    """Run until so many replies have come, send the signal, and return the exit code."""
    process = start(script, folder, 0.15)
    while len(paid_replies(folder)) < replies:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(blow)
    process.communicate()
    assert process.returncode is not None
    return process.returncode


def completed(script: str, folder: Path) -> dict[str, Any]:
    """Run to the end, and return what was printed."""
    process = start(script, folder, 0.0)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    document: dict[str, Any] = json.loads(out)
    return document


def figures(records: list[Record]) -> list[tuple[Any, ...]]:
    return sorted(
        (r.method, r.question, r.epoch, str(r.score), r.tokens, r.output) for r in records
    )


def test_an_evaluation_interrupted_and_killed_ends_like_one_that_nobody_stopped(
    tmp_path: Path,
) -> None:
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    unharmed = completed(EVALUATION, whole)
    assert struck(EVALUATION, cut, 14, signal.SIGINT) == 1
    assert len(list(cut.glob("*.eval"))) == 3
    assert struck(EVALUATION, cut, 32, signal.SIGKILL) == -signal.SIGKILL
    records = read_records(cut)  # a killed run's logs
    assert records
    assert {record.method for record in records} <= {"vanilla", "cosine", "stepwise"}
    before = paid_replies(cut)
    last = completed(EVALUATION, cut)
    after = paid_replies(cut)

    assert after[: len(before)] == before
    assert len(after) == len(paid_replies(whole))  # none was paid for twice
    assert last["n"] == 30
    assert figures(read_records(cut)) == figures(read_records(whole))
    assert last["spent"] == unharmed["spent"] == unharmed["paid"]
    assert last["paid"] < unharmed["paid"]


def test_a_tuning_killed_and_interrupted_takes_the_same_way_and_pays_for_nothing_twice(
    tmp_path: Path,
) -> None:
    cut = tmp_path / "cut"
    whole = completed(TUNING, tmp_path / "whole")
    assert struck(TUNING, cut, 18, signal.SIGKILL) == -signal.SIGKILL  # measuring the original
    blow = struck(TUNING, cut, 50, signal.SIGINT)  # within GEPA
    assert blow in {-signal.SIGINT, 128 + signal.SIGINT, 1}
    before = paid_replies(cut)
    last = completed(TUNING, cut)
    after = paid_replies(cut)

    assert after[: len(before)] == before
    assert len(after) == len(dict(after))
    assert last["calls"] == whole["calls"]
    assert last["paid"] < whole["paid"] == whole["tokens"]
    for part in ("told", "path", "e3", "verdict", "tokens"):
        assert last[part] == whole[part]
    again = completed(TUNING, cut)  # a finished run is repeated for nothing
    assert again["paid"] == 0
    assert again["path"] == whole["path"]
