"""A run that is killed, and the same command again: exact, whenever the blow falls."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from optim.records import Record, read_records
from tests.support.evaluations import leaks_collected, tolerates_inspect
from tests.support.killed import Victim, paid_replies

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = tolerates_inspect

VICTIM = Victim("""
import json, sys
from pathlib import Path
from tests.support.chat_model import ScriptedChat
from tests.support.evaluations import evaluated, fails_on_the_hardest

model = ScriptedChat(solve=fails_on_the_hardest, seconds=float(sys.argv[2]), plan=["One?", "Two?"])
found = evaluated(
    model, Path(sys.argv[1]), methods="vanilla,cosine,stepwise", epochs=2, concurrency=3
)
print(json.dumps({"paid": model.output_tokens, "spent": found.spent, "n": len(found.records)}))
""")
ANSWERS = 30


def figures(records: list[Record]) -> list[tuple[Any, ...]]:
    return sorted(
        (r.method, r.question, r.epoch, str(r.score), r.tokens, r.output) for r in records
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """A run that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, VICTIM.completed(folder)


def test_interrupted_and_killed_it_ends_like_a_run_that_nobody_stopped(
    tmp_path: Path, whole: tuple[Path, dict[str, int]]
) -> None:
    blow = VICTIM.struck(tmp_path, 14, signal.SIGINT)
    assert blow == 1
    assert len(list(tmp_path.glob("*.eval"))) == 3
    assert VICTIM.struck(tmp_path, 32, signal.SIGKILL) == -signal.SIGKILL
    records = read_records(tmp_path)  # a killed run's logs
    assert records
    assert {record.method for record in records} <= {"vanilla", "cosine", "stepwise"}
    before = paid_replies(tmp_path)
    last = VICTIM.completed(tmp_path)
    after = paid_replies(tmp_path)

    assert after[: len(before)] == before
    assert len(after) == len(paid_replies(whole[0]))  # none was paid for twice
    assert last["n"] == ANSWERS
    assert figures(read_records(tmp_path)) == figures(read_records(whole[0]))
    assert last["spent"] == whole[1]["spent"] == whole[1]["paid"]
    assert last["paid"] < whole[1]["paid"]
