"""Runs in a process of their own, which a test kills and starts again in the same folder."""

from __future__ import annotations

import io
import json
import signal
import sqlite3
import sys
import time
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from optim.evaluation.store import REPLIES
from tests.support.fork_server import Forked, forked

__all__ = ["Victim", "paid_replies"]


@dataclass(frozen=True)
class Victim:
    """A script that is told a folder and the seconds a model call takes, and prints JSON.

    Attributes:
        script: Python; its replies go into the folder's store.
    """

    script: str

    def start(self, folder: Path, seconds: float) -> Forked:
        """Begin."""
        return forked(self.script, str(folder), str(seconds))

    def struck(self, folder: Path, replies: int, blow: signal.Signals) -> int:
        """Run until so many replies have come, strike, and give how it ended."""
        process = self.start(folder, 0.15)
        while len(paid_replies(folder)) < replies:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(blow)
        process.communicate()
        assert process.returncode is not None
        return process.returncode

    def completed(self, folder: Path) -> dict[str, Any]:
        """Run to the end, and give what it printed; here, as a start-up takes five seconds."""
        out = io.StringIO()
        with redirect_stdout(out), patch.object(sys, "argv", ["-c", str(folder), "0.0"]):
            exec(compile(self.script, "victim", "exec"), {})  # noqa: S102 -- our own code
        document: dict[str, Any] = json.loads(out.getvalue())
        return document


def paid_replies(folder: Path) -> list[tuple[str, int]]:
    """The keys and tokens of what has been paid for so far, in order."""
    try:
        with closing(sqlite3.connect(f"file:{folder / REPLIES}?mode=ro", uri=True)) as store:
            return store.execute("SELECT key, tokens FROM replies ORDER BY rowid").fetchall()
    except sqlite3.OperationalError:  # it is not there yet
        return []
