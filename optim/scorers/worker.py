"""A child process that answers JSON lines, and is killed when it takes too long.

Not `multiprocessing`: its spawned children run the caller's `__main__` again, and with it, where
a script has no main guard, a paid evaluation.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, cast

from optim.scorers.score import ScorerError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_STARTUP_LIMIT = 120.0  # seconds: importing sympy on a loaded machine is slow, and no one's fault
_ATTEMPTS = 2


class TimeLimitError(ScorerError):
    """The worker took longer than it may for one request, and was killed."""


class _EndedError(Exception):
    """The child ended without an answer."""


class _Child:
    """One running child; `stop` ends it whatever it is doing."""

    def __init__(self, program: Path, limit: float) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own program and interpreter
            # -P: the program's folder must not shadow the standard library.
            [sys.executable, "-P", str(program), str(math.ceil(limit))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            text=True,
            encoding="ascii",  # json.dumps writes nothing else
        )

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
        # Both are pipes, since that is how the process was started.
        stdin = cast("IO[str]", self.process.stdin)
        with suppress(OSError):  # a child that ended cannot be written to; the read tells
            stdin.write(line)
            stdin.flush()
        return cast("IO[str]", self.process.stdout).readline()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):  # flushing what the child never read
                    stream.close()


class Worker:
    """Keeps one child process for requests; started when first asked, ended with its owner.

    Args:
        program: A Python file. It gets its time limit per request in whole seconds as argument,
            writes `{"ready": true}` or `{"failed": "why"}`, then one JSON line per JSON line read.
        limit: Seconds that one request may take.
    """

    def __init__(self, program: Path, limit: float) -> None:
        self._program = program
        self._limit = limit
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """Answer one request; a child that dies of it is replaced and asked once more.

        Raises:
            TimeLimitError: It took longer than the limit.
            ScorerError: The child could not be started, or died twice.
        """
        line = json.dumps(request) + "\n"
        with self._lock:
            for _ in range(_ATTEMPTS):
                with suppress(_EndedError):
                    return self._ask_once(line)
        msg = (
            f"the scoring process ({self._program.name}) died {_ATTEMPTS} times on the same "
            "answer; it was not scored. Is the machine out of memory?"
        )
        raise ScorerError(msg)

    def close(self) -> None:
        """End the child; a later request starts a new one."""
        with self._lock:
            self._drop()

    def _ask_once(self, line: str) -> dict[str, Any]:
        if self._child is None:
            self._child = self._start()
        try:
            reply, expired = self._child.exchange(line, self._limit)
        except BaseException:  # Ctrl-C: the reply would be read as that of the next request
            self._drop()
            raise
        if expired or not reply.endswith("\n"):
            self._drop()
        if reply.endswith("\n"):
            answer: dict[str, Any] = json.loads(reply)
            return answer
        if expired:
            msg = f"no result within {self._limit:g} s"
            raise TimeLimitError(msg)
        raise _EndedError

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
