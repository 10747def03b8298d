"""Runs in a process of their own, which a test kills and starts again in the same folder."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optim.evaluation.store import REPLIES
from tests.support.fork_server import Forked, forked


@dataclass(frozen=True)
class Victim:
    """A script that is told a folder and the seconds a model call takes, and prints JSON.

    Attributes:
        script: Python; its replies go into the folder's store.
    """

    script: str

    def start(self, folder: Path, seconds: float) -> Forked:
        """Begin a run."""
        return forked(self.script, str(folder), str(seconds))

    def struck(self, folder: Path, replies: int, blow: signal.Signals) -> int:
        """Run until so many replies have come, send the signal, and return the exit code."""
        process = self.start(folder, 0.15)
        while len(paid_replies(folder)) < replies:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(blow)
        process.communicate()
        assert process.returncode is not None
        return process.returncode

    def completed(self, folder: Path) -> dict[str, Any]:
        """Run to the end, and return what was printed."""
        process = self.start(folder, 0.0)
        out, err = process.communicate()
        assert process.returncode == 0, err
        document: dict[str, Any] = json.loads(out)
        return document


def paid_replies(folder: Path) -> list[tuple[str, int]]:
    """Return the keys and tokens of the replies in a folder's store, in order."""
    try:
        with closing(sqlite3.connect(f"file:{folder / REPLIES}?mode=ro", uri=True)) as store:
            return store.execute("SELECT key, tokens FROM replies ORDER BY rowid").fetchall()
    except sqlite3.OperationalError:  # it is not there yet
        return []
