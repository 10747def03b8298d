"""Commands, evaluations and tunings interrupted and killed: exact, and nothing is paid twice."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from optim.records import read_records
from tests.support.evaluations import contents, leaks_collected, paid_replies, tolerates_inspect
from tests.support.fault_server import CHAIN, FaultServer
from tests.support.fork_server import PATIENCE, ROOT, Forked
from tests.support.graphs import checked

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = [pytest.mark.integration, *tolerates_inspect]

COMMAND = "from pb_graph.cli.app import main; main()"
SOLVE = ("solve", "What is 6 * 7?", "--model", "openai:m", "--level", "5")
STEPWISE = ("--set", "execution=stepwise")


@pytest.fixture
def model_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    """Serve ``openai:m``, which OpenAI's SDK finds by its variable."""
    with FaultServer(stall=PATIENCE) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield model


def test_json_is_one_document_that_accounts_for_every_call(model_server: FaultServer) -> None:
    # An interpreter of its own shows that loading warns of nothing, either.
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-W", "error", "-c", COMMAND, *SOLVE, *STEPWISE, "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = checked(json.loads(done.stdout))
    assert [step["question"] for step in report["steps"]] == list(CHAIN)
    assert report["usage"]["calls"] == model_server.served
    assert report["usage"]["output_tokens"] == model_server.billed
    solving = [request.cap for request in model_server.requests if not request.plans]
    assert all(cap <= step["cap"] for cap, step in zip(solving, report["steps"], strict=True))


def interrupted(
    model_server: FaultServer, command: str, *words: str, after: int
) -> tuple[str, str]:
    """Interrupt a command whose model stalls after so many calls; return what it printed."""
    model_server.script = lambda request: "stall" if request.number >= after else None
    process = Forked(command, *words)
    while model_server.served <= after:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate()
    assert process.returncode == 130, said
    return said


def test_ctrl_c_leaves_the_plan_and_one_line_with_what_was_spent(model_server: FaultServer) -> None:
    stdout, stderr = interrupted(model_server, COMMAND, *SOLVE, after=1)
    spent = f"interrupted. {model_server.billed} completion tokens were spent in 1 call."
    assert stderr == f"pb-graph: {spent} A call under way may be billed as well.\n"
    assert CHAIN[0] in stdout
    assert "\x1b" not in stdout


def test_ctrl_c_ends_an_evaluation_without_the_calls_under_way(
    model_server: FaultServer, tmp_path: Path
) -> None:
    words = ("eval", "--dataset", "arithmetic", "--methods", "vanilla", "--model", "openai:m")
    command = "from optim.cli import main; main()"
    _, stderr = interrupted(model_server, command, *words, "--log-dir", str(tmp_path), after=40)
    assert stderr.splitlines()[-1].startswith("pb-optim: interrupted")
    assert "Traceback" not in stderr


EVALUATION = """
import json, sys
from pathlib import Path
from tests.support.chat_model import ScriptedChat
from tests.support.evaluations import evaluated, fails_on_the_hardest

model = ScriptedChat(solve=fails_on_the_hardest, seconds=float(sys.argv[2]), plan=["One?", "Two?"])
found = evaluated(
    model, Path(sys.argv[1]), methods="vanilla,cosine,stepwise", epochs=2, concurrency=3,
    settings={"max_retries": 0},
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
    assert contents(read_records(cut)) == contents(read_records(whole))
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


# One cluster: a run whose worker is killed, a further one in its folder, and one with a limit.
# At what rich takes for a terminal, progress is drawn at once and not after half a minute.
ON_RAY = """
import json, os, sys
from dataclasses import replace
from pathlib import Path
import ray
from rich.console import Console
from optim import Experiment, evaluate
from optim.evaluation import on_ray

root = Path(sys.argv[1])
whole = Experiment(
    dataset="arithmetic", limit=12, methods="vanilla,cosine", scorer="match", model="openai:m",
    concurrency=2, log_dir=root, limit_tokens=10_000_000,
)
alone = replace(whole, concurrency=16, log_dir=root.with_name("alone"))
evaluate(alone, console=Console(quiet=True))
ray.init(log_to_driver=False, configure_logging=False)
os.environ.update(TTY_COMPATIBLE="1", COLUMNS="200")
console = Console(stderr=True, width=200)
found = evaluate(whole, console=console, run=on_ray(2))
one = replace(whole, methods="cosine")  # other rows of the folder are not its own
again = evaluate(one, console=Console(quiet=True), run=on_ray(2))
limited = replace(whole, methods="vanilla", log_dir=root.with_name("limited"), concurrency=1)
cut = evaluate(replace(limited, limit_tokens=12), console=console, run=on_ray(2))
ray.shutdown()
print(json.dumps({
    "records": len(found.records), "left": found.not_started,
    "again": sorted({record.method for record in again.records}),
    "cut": [cut.spent, cut.not_started, len(cut.records)],
}))
"""


def paid(root: Path) -> list[str]:
    """Return the key of every reply; one that is there twice was paid twice."""
    return [key for folder in sorted(root.glob("part-*")) for key, _ in paid_replies(folder)]


def workers(url: str) -> list[int]:
    """Return Ray's workers that are at a part of ours: their titles say what they do."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            ours = url.encode() in line.with_name("environ").read_bytes()
            if ours and line.read_bytes().startswith(b"ray::_run_part"):
                found.append(int(line.parent.name))
        except OSError:  # it is gone, or another user's
            continue
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds workers by /proc")
def test_ray_gives_the_same_records_though_a_worker_is_killed_and_has_one_limit(
    tmp_path: Path,
) -> None:
    pytest.importorskip("ray", reason="needs ray")
    root = tmp_path / "all"
    with FaultServer(latency=0.2) as server:
        environment = {
            "PYTHONPATH": str(ROOT),  # also of Ray's workers
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": server.url,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_raylet_start_wait_time_s": "300",
        }
        driver = Forked(ON_RAY, str(root), environment=environment)
        while len(paid(root)) < 3:
            assert driver.poll() is None, driver.communicate()
            time.sleep(0.05)
        os.kill(workers(server.url)[0], signal.SIGKILL)
        out, err = driver.communicate(3 * PATIENCE)
    assert driver.returncode == 0, err
    keys, told = paid(root), json.loads(out.splitlines()[-1])
    assert contents(read_records(root)) == contents(read_records(tmp_path / "alone"))
    assert len(keys) == len(set(keys))
    assert (told["records"], told["left"], told["again"]) == (24, 0, ["cosine"])
    # Each part alone would come to the limit, with the answer of three tokens under way then.
    spent, left, answers = told["cut"]
    assert 12 <= spent < 12 + 2 * 3
    assert (answers, left) == (spent // 3, 12 - spent // 3)
    assert re.search(r"of 12 answers, 0 errors, \d+ completion tokens spent", err)
