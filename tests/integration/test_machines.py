"""An evaluation on several machines: plain processes with --part, and Ray, with one killed."""

from __future__ import annotations

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
from tests.support.killed import whole_lines

__all__ = ["leaks_collected"]  # applies to every test here

pytestmark = [pytest.mark.integration, *tolerates_inspect]

WHOLE = """
import os, signal, sys, time
from dataclasses import replace
from pathlib import Path
from rich.console import Console
from optim import Experiment, evaluate

root = Path(sys.argv[1])
whole = Experiment(
    dataset="arithmetic", limit=24, methods="vanilla,cosine", scorer="match", model="openai:m",
    concurrency=2, log_dir=root, max_tokens_total=10_000_000,
)
"""
ALONE = WHOLE + "evaluate(replace(whole, concurrency=16), console=Console(quiet=True))"
# Processes of one program, so that it is loaded once; the first one is killed, and repeated.
PARTS = (
    WHOLE
    + """
of, processes = 16, 4

def answers(parts):
    child = os.fork()
    if child:
        return child
    for number in parts:
        part = replace(whole, part=f"{number}/{of}", log_dir=root / f"part-{number}")
        evaluate(part, console=Console(quiet=True))
    os._exit(0)

shares = [range(first, of + 1, processes) for first in range(1, processes + 1)]
doomed, *others = map(answers, shares)
replies = [root / f"part-{number}" / "replies.jsonl" for number in shares[0]]
while sum(file.read_text().count("\\n") for file in replies if file.exists()) < 5:
    time.sleep(0.02)
os.kill(doomed, signal.SIGKILL)
assert os.waitpid(doomed, 0)[1] == signal.SIGKILL
for child in [*others, answers(shares[0])]:
    assert os.waitpid(child, 0)[1] == 0
"""
)
ON_RAY = (
    WHOLE
    + """
found = evaluate(whole, console=Console(stderr=True, width=200), engine="ray", parts=4)
print(len(found.records), found.not_started)
one = replace(whole, methods="cosine")  # what else the folder holds is none of its own
print({record.method for record in evaluate(one, engine="ray", parts=4).records})
"""
)
# At what rich takes for a terminal, progress is drawn at once and not after half a minute.
COMMAND = """
import os
from optim.cli import main

os.environ.update(TTY_COMPATIBLE="1", COLUMNS="200")
main()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving("--latency", "0.1") as url:
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
    plain = [timeless(record.to_dict() | {"made_by": None}) for record in records]
    return sorted(json.dumps(one, sort_keys=True) for one in plain)


def timeless(value: Any) -> Any:  # noqa: ANN401 -- JSON
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if "second" not in k}
    return [timeless(one) for one in value] if isinstance(value, list | tuple) else value


def paid(root: Path) -> list[str]:
    """The key of every reply that was paid for; one that is there twice was paid twice."""
    files = sorted(root.rglob("replies.jsonl"))
    return [json.loads(line)["key"] for file in files for line in whole_lines(file)]


def waits_for_replies(root: Path, count: int, process: Forked) -> None:
    while not root.exists() or len(paid(root)) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def whole(server: str, tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """One run of all of it, that nobody interrupts."""
    root = tmp_path_factory.mktemp("whole")
    completed(start(ALONE, server, root))
    assert len(read_records(root)) == 48
    return read_records(root)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
def test_parts_on_several_processes_give_the_same_records_though_one_is_killed(
    server: str, whole: list[Record], tmp_path: Path
) -> None:
    completed(start(PARTS, server, tmp_path))
    folders = sorted(tmp_path.glob("part-*"))
    assert contents(read_records(folders)) == contents(whole)
    assert len(folders) == 16
    assert not all(list(folder.glob("*.eval")) for folder in folders)  # some have no question
    keys = paid(tmp_path)
    assert len(keys) == len(set(keys))


def workers(server: str) -> list[int]:
    """Ray's workers that are at a part of ours: they say in their titles what they do."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            ours = server.encode() in line.with_name("environ").read_bytes()
            if ours and line.read_bytes().startswith(b"ray::_work"):
                found.append(int(line.parent.name))
        except OSError:  # it is gone, or another user's
            continue
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds workers by /proc")
def test_ray_gives_the_same_records_though_a_worker_is_killed(
    server: str, whole: list[Record], tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="needs ray")
    driver = start(ON_RAY, server, tmp_path)
    waits_for_replies(tmp_path, 5, driver)
    os.kill(workers(server)[0], signal.SIGKILL)
    out, _ = completed(driver)
    keys = paid(tmp_path)
    assert contents(read_records(tmp_path)) == contents(whole)
    assert len(keys) == len(set(keys))
    assert out.split() == ["48", "0", "{'cosine'}"]


def test_parts_on_ray_have_one_limit_and_one_line_of_progress(server: str, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs ray")
    asked = "eval --dataset arithmetic --limit 24 --methods vanilla --scorer match --model openai:m"
    most, parts, tokens = 12, 3, 3  # each answer has three tokens
    how = f"--ray --parts {parts} --max-tokens-total {most} --concurrency 1 --json"
    command = f"{asked} {how}".split()
    out, err = completed(start(COMMAND, server, *command, "--log-dir", tmp_path))
    found = json.loads(out)
    # Each part alone would come to the limit, with the answer that is under way then.
    assert most <= found["spent"] < most + parts * tokens
    assert found["not_started"] == 24 - found["spent"] // tokens
    assert len(read_records(tmp_path, partial=True)) == found["spent"] // tokens
    line = r"3 of 3 parts, \d+ of 24 answers, 0 errors, \d+ completion tokens spent of 12, \d+ s"
    assert re.search(line, err)
    assert "accuracy" not in err  # which a part's own progress shows
