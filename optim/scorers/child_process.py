"""A child process that answers JSON lines, within a limit on its computing time.

Not `multiprocessing`: its spawned children run the caller's `__main__` again, and with it, where
a script has no main guard, a paid evaluation.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, cast

from optim.scorers.base import ScorerError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_STARTUP_LIMIT = 120.0  # seconds: importing sympy on a loaded machine is slow, and no one's fault
_STUCK_AFTER = 600.0  # seconds that a request may wait, however busy the machine is
_ATTEMPTS = 2


class TimeLimitError(ScorerError):
    """One request took longer than it may, twice."""


class _Child:
    """One running child; `stop` ends it whatever it is doing."""

    def __init__(self, program: Path, limit: float) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own program and interpreter
            # -P: the program's folder must not shadow the standard library.
            [sys.executable, "-P", str(program), str(limit)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            text=True,
            encoding="ascii",  # json.dumps writes nothing else
        )
        pipes = self.process.stdin, self.process.stdout
        self._pipes = cast("tuple[IO[str], IO[str]]", pipes)  # since it was started so

    def exchange(self, line: str, limit: float) -> tuple[str, bool]:
        """Send a line, read one back: the reply ("" when the child ended), and if time ran out."""
        expired = threading.Event()

        def kill() -> None:
            expired.set()
            self.process.kill()

        watchdog = threading.Timer(limit, kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            return self._send_and_read(line), expired.is_set()
        finally:
            watchdog.cancel()

    def _send_and_read(self, line: str) -> str:
        stdin, stdout = self._pipes
        with suppress(OSError):  # a child that ended cannot be written to; the read tells
            stdin.write(line)
            stdin.flush()
        return stdout.readline()

    def disown(self) -> None:
        """Let go of the pipes, so that the child still ends with the process it belongs to."""
        with open(os.devnull, "r+b") as nothing:  # noqa: PTH123 - not a path
            for pipe in self._pipes:
                os.dup2(nothing.fileno(), pipe.fileno())
        self.process.returncode = 0  # there is nothing to wait for here

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in self._pipes:
            with suppress(OSError):  # flushing what the child never read
                pipe.close()


class ChildProcess:
    """Keeps one child process for requests; started when first asked, ended with its owner.

    A forked copy of this process leaves the child to the original, and starts its own.

    Args:
        program: A Python file. It gets its seconds of computing per request as argument, and has
            itself ended by SIGPROF when they are over. It writes `{"ready": true}` or
            `{"failed": "why"}`, then one JSON line per JSON line read.
        limit: Seconds of computing that one request may take.
        stuck_after: Seconds of waiting after which a child is given up that computes nothing.
    """

    def __init__(self, program: Path, limit: float, stuck_after: float = _STUCK_AFTER) -> None:
        self._program = program
        self._limit = limit
        self._stuck_after = stuck_after
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        _PROCESSES.add(self)

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """Answer one request; where the child dies of it or is too slow, a fresh one is asked.

        Raises:
            TimeLimitError: It took longer than the limit, twice.
            ScorerError: The child could not be started, or died twice.
        """
        line = json.dumps(request) + "\n"
        with self._lock:
            for _ in range(_ATTEMPTS):
                reply, slow = self._exchange(line)
                if reply:
                    answer: dict[str, Any] = json.loads(reply)
                    return answer
        if slow:
            msg = f"the answer took longer than {self._limit:g} s of computing to judge, twice"
            raise TimeLimitError(msg)
        msg = (
            f"the scoring process ({self._program.name}) died {_ATTEMPTS} times on the same "
            "answer; it was not scored. Is the machine out of memory?"
        )
        raise ScorerError(msg)

    def close(self) -> None:
        """End the child; a later request starts a new one."""
        with self._lock:
            self._drop()

    def forget(self) -> None:
        """Let go of a child that belongs to the process this one was forked from."""
        self._lock = threading.Lock()  # whoever held it does not exist here
        if self._finalizer is not None:
            self._finalizer.detach()
        if self._child is not None:
            self._child.disown()
        self._finalizer = self._child = None

    def _exchange(self, line: str) -> tuple[str, bool]:
        """The child's reply, "" where it ended without one; and whether its time was over."""
        if self._child is None:
            self._child = self._start()
        child = self._child
        try:
            reply, expired = child.exchange(line, self._stuck_after)
        except BaseException:  # Ctrl-C: the reply would be read as that of the next request
            self._drop()
            raise
        reply = reply if reply.endswith("\n") else ""
        if expired or not reply:
            self._drop()
        return reply, expired or child.process.returncode == _OUT_OF_TIME

    def _start(self) -> _Child:
        child = _Child(self._program, self._limit)
        self._finalizer = weakref.finalize(self, child.stop)
        reply, _ = child.exchange("", _STARTUP_LIMIT)
        greeting = json.loads(reply) if reply.endswith("\n") else {}
        if not greeting.get("ready"):
            self._drop()
            msg = f"the scoring process did not start: {greeting.get('failed', 'it ended at once')}"
            raise ScorerError(msg)
        return child

    def _drop(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._finalizer = self._child = None


_OUT_OF_TIME = -signal.SIGPROF if hasattr(signal, "SIGPROF") else None  # absent on Windows
_PROCESSES: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


def _forget_all() -> None:
    for process in list(_PROCESSES):
        process.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
