"""The command in a process of its own, against a loopback server with OpenAI's protocol."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fault_server import CHAIN, FaultServer
from tests.support.fork_server import PATIENCE, Forked
from tests.support.graphs import checked

pytestmark = pytest.mark.integration

COMMAND = "from pb_graph.cli.app import main; main()"
SOLVE = ("solve", "What is 6 * 7?", "--model", "openai:m", "--level", "5")
STEPWISE = ("--set", "execution=stepwise")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    """Serve ``openai:m``, which OpenAI's SDK finds by its variable."""
    with FaultServer(stall=PATIENCE) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield model


def test_json_is_one_document_that_accounts_for_every_call(server: FaultServer) -> None:
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
    assert report["usage"]["calls"] == server.served
    assert report["usage"]["output_tokens"] == server.billed
    solving = [request.cap for request in server.requests if not request.plans]
    assert all(cap <= step["cap"] for cap, step in zip(solving, report["steps"], strict=True))


def interrupted(server: FaultServer, command: str, *words: str, after: int) -> tuple[str, str]:
    """Interrupt a command whose model stalls after so many calls; return what it printed."""
    server.script = lambda request: "stall" if request.number >= after else None
    process = Forked(command, *words)
    while server.served <= after:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate()
    assert process.returncode == 130, said
    return said


def test_ctrl_c_leaves_the_plan_and_one_line_with_what_was_spent(server: FaultServer) -> None:
    stdout, stderr = interrupted(server, COMMAND, *SOLVE, after=1)
    assert stderr == (
        f"pb-graph: interrupted. {server.billed} completion tokens were spent in 1 call.\n"
    )
    assert CHAIN[0] in stdout
    assert "\x1b" not in stdout


def test_ctrl_c_ends_an_evaluation_without_the_calls_under_way(
    server: FaultServer, tmp_path: Path
) -> None:
    words = ("eval", "--dataset", "arithmetic", "--methods", "vanilla", "--model", "openai:m")
    command = "from optim.cli import main; main()"
    _, stderr = interrupted(server, command, *words, "--log-dir", str(tmp_path), after=40)
    assert stderr.splitlines()[-1].startswith("pb-optim: interrupted")
    assert "Traceback" not in stderr
