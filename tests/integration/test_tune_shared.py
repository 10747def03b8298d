"""A search of settings in several processes at once: one result, and nothing is paid for twice."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.fork_server import PATIENCE, forked
from tests.support.killed import whole_lines

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")

# Processes of one program, so that it is loaded once: one alone, then three in one folder, the
# first of which is killed at its work.
PROGRAM = """
import json, os, signal, sys, time
from pathlib import Path
from optim.tune import GraphProgram, tune
from tests.support.chat_model import with_schema
from tests.support.tuning_world import DEV, HELD_OUT, Exact, Style, world

root = Path(sys.argv[1])

def searches(name, folder, seconds):
    child = os.fork()
    if child:
        return child
    model = world({"usual": Style(0.6, 40)}, seconds=seconds)
    found = tune(
        GraphProgram(model, cap_policy=with_schema), [], DEV[:10], held_out=HELD_OUT[:4],
        scorer=Exact(), tuned="settings", budget=70, concurrency=3, run_dir=folder,
    ).search
    (root / f"{name}.json").write_text(json.dumps({
        "paid": model.output_tokens,
        "path": sorted((trial.candidate.identity, trial.measurement.e3) for trial in found.trials),
        "fell": sorted(proposal.candidate.identity for proposal in found.dropped),
        "verdict": found.verdict.reason,
    }))
    os._exit(0)

def written(file):
    return file.read_text().count("\\n") if file.exists() else 0

def ends(child):
    assert os.waitpid(child, 0)[1] == 0

ends(searches("alone", root / "alone", 0.0))
shared = root / "shared"
doomed = searches("doomed", shared, 0.1)
while written(shared / "replies.jsonl") < 5:
    time.sleep(0.02)
others = [searches(name, shared, 0.1) for name in ("one", "other")]
while not written(shared / "worker-2" / "replies.jsonl"):
    time.sleep(0.02)
os.kill(doomed, signal.SIGKILL)
os.waitpid(doomed, 0)
for other in others:
    ends(other)
ends(searches("again", shared, 0.0))
"""


def test_processes_share_a_search_though_one_is_killed(tmp_path: Path) -> None:
    done = forked(PROGRAM, str(tmp_path))
    _, errors = done.communicate(2 * PATIENCE)
    assert done.returncode == 0, errors
    assert not (tmp_path / "doomed.json").exists()
    alone, one, other, again = (
        json.loads((tmp_path / f"{name}.json").read_text())
        for name in ("alone", "one", "other", "again")
    )
    for name in ("path", "fell", "verdict"):
        assert one[name] == other[name] == again[name] == alone[name]
    assert 0 < one["paid"] < alone["paid"]
    assert 0 < other["paid"] < alone["paid"]
    assert again["paid"] == 0  # a finished search is repeated for nothing
    files = (tmp_path / "shared").rglob("replies.jsonl")
    keys = [json.loads(line)["key"] for file in files for line in whole_lines(file)]
    assert len(keys) == len(set(keys))
