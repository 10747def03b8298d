"""An evaluation in parts on Ray, of which one worker is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from optim.records import Record, read_records
from tests.support.evaluations import leaks_collected, paid_replies, tolerates_inspect
from tests.support.fault_server import FaultServer
from tests.support.fork_server import PATIENCE, ROOT, Forked

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = [pytest.mark.integration, *tolerates_inspect]

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


def contents(records: list[Record]) -> list[tuple[object, ...]]:
    return sorted((r.method, r.question, r.epoch, r.score, r.tokens, r.output) for r in records)


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
