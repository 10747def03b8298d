"""An evaluation on several machines: plain processes with --part, and Ray, with one killed."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from optim.records import Record, read_records
from tests.support.evaluations import leaks_collected, tolerates_inspect
from tests.support.fault_server import serving
from tests.support.fork_server import PATIENCE, ROOT, Forked, forked
from tests.support.killed import paid_replies

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = [pytest.mark.integration, *tolerates_inspect]

WHOLE = """
import json, os, signal, sys, time
from dataclasses import replace
from pathlib import Path
from rich.console import Console
from optim import Experiment, evaluate
from tests.support.killed import paid_replies

root = Path(sys.argv[1])
whole = Experiment(
    dataset="arithmetic", limit=12, methods="vanilla,cosine", scorer="match", model="openai:m",
    concurrency=2, log_dir=root, max_tokens_total=10_000_000,
)
"""
ALONE = WHOLE + "evaluate(replace(whole, concurrency=16), console=Console(quiet=True))"
# Processes of one program, so that it is loaded once; the first one is killed, and repeated.
PARTS = (
    WHOLE
    + """
def answers(number):
    child = os.fork()
    if child:
        return child
    part = replace(whole, part=f"{number}/2", log_dir=root / f"part-{number}")
    evaluate(part, console=Console(quiet=True))
    os._exit(0)

doomed, other = map(answers, (1, 2))
while len(paid_replies(root / "part-1")) < 3:
    time.sleep(0.02)
os.kill(doomed, signal.SIGKILL)
assert os.waitpid(doomed, 0)[1] == signal.SIGKILL
for child in (other, answers(1)):
    assert os.waitpid(child, 0)[1] == 0
"""
)
# One cluster: a run whose worker is killed, a further one in its folder, and one with a limit.
# At what rich takes for a terminal, progress is drawn at once and not after half a minute.
ON_RAY = (
    WHOLE
    + """
import ray
ray.init(log_to_driver=False, configure_logging=False)
os.environ.update(TTY_COMPATIBLE="1", COLUMNS="200")
console = Console(stderr=True, width=200)
found = evaluate(whole, console=console, engine="ray", parts=2)
one = replace(whole, methods="cosine")  # other rows of the folder are not its own
again = evaluate(one, console=Console(quiet=True), engine="ray", parts=2)
limited = replace(whole, methods="vanilla", log_dir=root.with_name("limited"), concurrency=1)
cut = evaluate(replace(limited, max_tokens_total=12), console=console, engine="ray", parts=2)
ray.shutdown()
print(json.dumps({
    "records": len(found.records), "left": found.not_started,
    "again": sorted({record.method for record in again.records}),
    "cut": [cut.spent, cut.not_started, len(cut.records)],
}))
"""
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving("--latency", "0.2") as url:
        yield url


def start(program: str, server: str, *arguments: str | Path) -> Forked:
    """Begin a program; its model is on the server."""
    environment = {
        "PYTHONPATH": str(ROOT),  # also of Ray's workers
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": server,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_raylet_start_wait_time_s": "300",
    }
    return forked(program, *map(str, arguments), environment=environment)


def completed(process: Forked) -> tuple[str, str]:
    """Wait for its end, and give its standard output and error."""
    out, err = process.communicate(3 * PATIENCE)
    assert process.returncode == 0, err
    return out, err


def contents(records: list[Record]) -> list[str]:
    """Everything in the records but the time that they took, and how they came about."""
    plain = [timeless(dataclasses.asdict(record) | {"made_by": None}) for record in records]
    return sorted(json.dumps(one, sort_keys=True) for one in plain)


def timeless(value: Any) -> Any:  # noqa: ANN401 -- JSON
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if "second" not in k}
    return [timeless(one) for one in value] if isinstance(value, list | tuple) else value


def paid(root: Path) -> list[str]:
    """The key of every reply that was paid for; one that is there twice was paid twice."""
    return [key for folder in sorted(root.glob("part-*")) for key, _ in paid_replies(folder)]


@pytest.fixture(scope="module")
def whole(server: str, tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """One run of all of it, that nobody interrupts."""
    root = tmp_path_factory.mktemp("whole")
    completed(start(ALONE, server, root))
    assert len(read_records(root)) == 24
    return read_records(root)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
def test_parts_on_several_processes_give_the_same_records_though_one_is_killed(
    server: str, whole: list[Record], tmp_path: Path
) -> None:
    completed(start(PARTS, server, tmp_path))
    assert contents(read_records(sorted(tmp_path.glob("part-*")))) == contents(whole)
    keys = paid(tmp_path)
    assert len(keys) == len(set(keys))


def workers(server: str) -> list[int]:
    """Ray's workers that are at a part of ours: they say in their titles what they do."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            ours = server.encode() in line.with_name("environ").read_bytes()
            if ours and line.read_bytes().startswith(b"ray::_run_part"):
                found.append(int(line.parent.name))
        except OSError:  # it is gone, or another user's
            continue
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds workers by /proc")
def test_ray_gives_the_same_records_though_a_worker_is_killed_and_has_one_limit(
    server: str, whole: list[Record], tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="needs ray")
    root = tmp_path / "all"
    driver = start(ON_RAY, server, root)
    while len(paid(root)) < 3:
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.05)
    os.kill(workers(server)[0], signal.SIGKILL)
    out, err = completed(driver)
    keys, told = paid(root), json.loads(out.splitlines()[-1])
    assert contents(read_records(root)) == contents(whole)
    assert len(keys) == len(set(keys))
    assert (told["records"], told["left"], told["again"]) == (24, 0, ["cosine"])
    # Each part alone would come to the limit, with the answer of three tokens under way then.
    spent, left, answers = told["cut"]
    assert 12 <= spent < 12 + 2 * 3
    assert (answers, left) == (spent // 3, 12 - spent // 3)
    line = r"\d+ of 12 answers, 0 errors, \d+ completion tokens spent of 12, \d+ s"
    assert re.search(line, err)
    assert "accuracy" not in err  # which a part's own progress shows
