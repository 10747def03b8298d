"""A process that has loaded everything once, and forks what tests start in processes of their own.

A start-up takes five seconds, of which importing is all but a tenth. Run as a program it reads
requests, a line of JSON each, and answers them; `forked` asks the one of this process.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE = 240
"""Seconds; a start-up takes a hundredth of that on an idle machine."""
_PIPES = ("out", "err")
_LOOKS = 0.01  # seconds between two looks whether a process has ended


class Forked:
    """What `subprocess.Popen` is, for a process that was forked off.

    Args:
        request: What it is to run; its output comes through pipes in the folder ``told``.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        pipes = [Path(request["told"], name) for name in _PIPES]
        for pipe in pipes:
            os.mkfifo(pipe)
        self._pipes = [os.open(pipe, os.O_RDONLY | os.O_NONBLOCK) for pipe in pipes]
        self._said = [b"" for _ in pipes]
        self.returncode: int | None = None
        self.pid: int = _asked(request)

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        if self.returncode is None:
            self.returncode = _asked({"ended": self.pid})
        return self.returncode

    def send_signal(self, sent: signal.Signals) -> None:
        """Strike it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sent)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = PATIENCE) -> tuple[str, str]:
        """Wait for its end, and give its standard output and error."""
        given_up = time.monotonic() + timeout
        while self.poll() is None:
            self._read()
            assert time.monotonic() < given_up, self._said
            time.sleep(_LOOKS)
        self._read()
        out, errors = (said.decode() for said in self._said)
        return out, errors

    def _read(self) -> None:
        for place, pipe in enumerate(self._pipes):
            with suppress(BlockingIOError):
                while piece := os.read(pipe, 1 << 16):
                    self._said[place] += piece


def forked(
    script: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    strict: bool = False,
) -> Forked:
    """Run Python in a process of its own that need not load our packages.

    Args:
        script: What ``python -c`` would be given.
        arguments: Behind it.
        environment: Variables beside those of this process.
        strict: Whether warnings are errors in it.
    """
    request = {
        "script": script,
        "arguments": arguments,
        "environment": os.environ | (environment or {}),
        "strict": strict,
        "told": tempfile.mkdtemp(dir=_folder()),
    }
    return Forked(request)


def _asked(request: dict[str, Any]) -> Any:  # noqa: ANN401 -- JSON
    server = _server()
    assert server.stdin
    assert server.stdout
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


@cache
def _folder() -> str:
    """For the pipes."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return folder.name


@cache
def _server() -> subprocess.Popen[str]:
    """Started when it is first asked; it ends with this process."""
    server = subprocess.Popen(  # noqa: S603 -- this module
        [sys.executable, "-m", __name__],
        cwd=ROOT,
        env=os.environ | {"LANGGRAPH_STRICT_MSGPACK": "true"},  # read when LangGraph is loaded
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)  # the end of its input is its own
    return server


def _load() -> None:
    """What the scripts import; nothing of it starts a thread, or reads what tests set."""
    import langchain_openai  # noqa: F401, PLC0415
    import langgraph.checkpoint.sqlite.aio  # noqa: F401, PLC0415

    import optim.cli  # noqa: PLC0415
    import optim.evaluation.run  # noqa: PLC0415
    import optim.tuning.gepa  # noqa: PLC0415
    import optim.tuning.run  # noqa: F401, PLC0415
    import pb_graph.cli.app  # noqa: PLC0415
    import pb_graph.planner.planner  # noqa: F401, PLC0415
    import tests.support.evaluations  # noqa: PLC0415
    import tests.support.graphs  # noqa: PLC0415
    import tests.support.tuning_world  # noqa: F401, PLC0415


def _become(request: dict[str, Any]) -> None:
    """In the forked process: be one that was started with this."""
    for descriptor, name in enumerate(_PIPES, start=1):
        os.dup2(os.open(Path(request["told"], name), os.O_WRONLY), descriptor)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c", *request["arguments"]]
    if request["strict"]:
        warnings.simplefilter("error")
    gc.enable()


def _ended(child: int) -> int | None:
    found, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


if __name__ == "__main__":
    gc.disable()  # while there is nothing to collect
    _load()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        if "ended" in request:
            print(json.dumps(_ended(request["ended"])), flush=True)  # noqa: T201 -- the protocol
        elif child := os.fork():
            print(child, flush=True)  # noqa: T201
        else:
            _become(request)
            # At the top level: what it ends with is what the process ends with.
            exec(compile(request["script"], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
            break
