"""Python in processes of their own, forked off one that has loaded our packages once."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).parents[2]
PATIENCE = 240
"""Seconds; a start-up takes a hundredth of that on an idle machine."""
_OUTPUTS = ("out", "err")
# Nothing of it starts a thread, or reads what tests set.
_LOADED = [
    *("langchain_openai", "langgraph.checkpoint.sqlite.aio", "pb_graph.cli.app", "optim.cli"),
    *("optim.evaluation.run", "optim.tuning.run", "pb_graph.planner.planner"),
    *("tests.support.evaluations", "tests.support.graphs", "tests.support.tuning_world"),
]


class Forked:
    """A process that runs Python without loading our packages, as `subprocess.Popen` would.

    Args:
        script: What ``python -c`` would be given.
        arguments: What follows the script in ``sys.argv``.
        environment: Variables beside those of this process.
        strict: Whether warnings are errors in it.
    """

    def __init__(
        self,
        script: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        strict: bool = False,
    ) -> None:
        self._folder = tempfile.mkdtemp(dir=_folder())
        variables = os.environ | (environment or {})
        given = (self._folder, script, arguments, variables, strict)
        self._process = _context().Process(target=_run, args=given)
        self._process.start()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code; None while the process runs."""
        return self._process.exitcode

    def send_signal(self, sent: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self._process.pid and self.poll() is None:
            os.kill(self._process.pid, sent)

    def communicate(self, timeout: float = PATIENCE) -> tuple[str, str]:
        """Wait for the end; return standard output and error."""
        self._process.join(timeout)
        out, err = (Path(self._folder, name).read_text("utf-8") for name in _OUTPUTS)
        assert self.poll() is not None, out + err
        return out, err


@cache
def _folder() -> str:
    """Return the folder of all output, which ends with this process."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return folder.name


@cache
def _context() -> Any:  # noqa: ANN401
    """Start the process that all others are forked off; it ends with this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LOADED)
    # Where it finds our packages; and LangGraph reads its variable when it is loaded.
    with patch.dict(os.environ, PYTHONPATH=str(ROOT), LANGGRAPH_STRICT_MSGPACK="true"):
        forkserver.ensure_running()
    return context


def _run(
    folder: str, script: str, arguments: tuple[str, ...], environment: dict[str, str], strict: bool
) -> None:
    """Be a process that was started with this, and end as it would."""
    for descriptor, name in enumerate(_OUTPUTS, start=1):
        os.dup2(os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT), descriptor)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    if strict:
        warnings.simplefilter("error")
    try:
        exec(compile(script, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 -- our own
    finally:
        threading._shutdown()  # type: ignore[attr-defined] # loky ends its workers by it
