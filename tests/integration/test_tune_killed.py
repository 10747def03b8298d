"""A tuning that is killed, and the same command again: the same result, and nothing paid twice."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.killed import Victim, paid_replies

VICTIM = Victim("""
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
    "tokens": found.evaluator.spent.tokens,
    "calls": found.evaluator.spent.answers,
    "told": dict(found.candidate.instructions),
    "path": [trial.candidate.identity for trial in found.trials],
    "e3": [trial.e3 for trial in found.trials],
    "verdict": found.verdict.reason,
}))
""")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run that nobody interrupts."""
    return VICTIM.completed(tmp_path_factory.mktemp("whole"))


def test_killed_and_interrupted_it_takes_the_same_way_and_pays_for_nothing_twice(
    tmp_path: Path, whole: dict[str, Any]
) -> None:
    assert VICTIM.struck(tmp_path, 18, signal.SIGKILL) == -signal.SIGKILL  # measuring the original
    blow = VICTIM.struck(tmp_path, 60, signal.SIGINT)  # within GEPA
    assert blow in {-signal.SIGINT, 128 + signal.SIGINT, 1}
    before = paid_replies(tmp_path)
    last = VICTIM.completed(tmp_path)
    after = paid_replies(tmp_path)

    assert after[: len(before)] == before
    assert len(after) == len(dict(after))
    assert last["calls"] == whole["calls"]
    assert last["paid"] < whole["paid"] == whole["tokens"]
    for part in ("told", "path", "e3", "verdict", "tokens"):
        assert last[part] == whole[part]
    again = VICTIM.completed(tmp_path)  # a finished run is repeated for nothing
    assert again["paid"] == 0
    assert again["path"] == whole["path"]
