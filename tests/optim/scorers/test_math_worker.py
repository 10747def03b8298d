"""The worker process of the math scorer: its limits, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from optim.scorers import ScorerError, math_worker
from optim.scorers.math_worker import Comparison, MathWorker

ROOT = Path(__file__).parents[3]
BOMB = r"\boxed{x + (10^{9})!}"
UNGUARDED = """
print("ran")
from optim.datasets import Question
from optim.scorers import as_scorer
print(as_scorer("math").score("\\\\boxed{\\\\frac12}", Question("a", "b", targets=("0.5",))).value)
"""


@pytest.fixture
def worker() -> Iterator[MathWorker]:
    made = MathWorker()
    yield made
    made._stop()


def pid(worker: MathWorker) -> int:
    worker.compare(["1"], r"\boxed{2}", 5)
    assert worker._pool is not None
    return next(iter(worker._pool._processes))


def test_a_comparison_over_its_limit_is_wrong_and_the_next_gets_a_fresh_worker(
    worker: MathWorker,
) -> None:
    first = pid(worker)
    found = worker.compare(["1"], BOMB, 0.3)
    assert (found.correct, found.answer) == (False, None)
    assert worker.compare(["1"], r"\boxed{1}", 5) == Comparison(correct=True, answer="1")
    assert "0.3 s" not in str(found.error) or pid(worker) != first


def test_a_busy_machine_changes_no_result(worker: MathWorker) -> None:
    number = pid(worker)
    # As if others had the processor: the worker waits for three times its limit.
    os.kill(number, signal.SIGSTOP)
    threading.Timer(1.5, os.kill, (number, signal.SIGCONT)).start()
    assert worker.compare(["0.5"], r"\boxed{\frac12}", 0.5).correct
    assert pid(worker) == number


def test_a_worker_that_was_killed_is_started_again(worker: MathWorker) -> None:
    threading.Timer(0.2, os.kill, (pid(worker), signal.SIGKILL)).start()
    time.sleep(0.4)
    assert worker.compare(["1"], r"\boxed{1}", 5).correct


def test_a_worker_that_cannot_start_is_an_error_not_a_0(
    worker: MathWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(math_worker, "_set_up", os.abort)
    with pytest.raises(ScorerError, match="failed 2 times"):
        worker.compare(["1"], r"\boxed{1}", 5)


def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-W", "error", str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.split() == ["ran", "1.0"]
    assert done.stderr == ""
