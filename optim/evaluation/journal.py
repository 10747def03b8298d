"""Files of what was paid for: lines that are only ever appended."""

from __future__ import annotations

import errno
import json
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pb_graph.errors import InputError, PlanAndBudgetError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_FULL = {errno.ENOSPC, errno.EDQUOT}


class StorageError(PlanAndBudgetError):
    """What is paid for cannot be written down, so nothing more is paid for."""


class Journal:
    """A file of JSON objects that is only ever appended to, each under a key.

    A line counts once its line feed is written; each is written in one piece. Opening the file
    cuts off a last line that a killed process left torn. Of several lines with one key the last
    counts. Entries stay on disk, since they hold whole prompts. One process writes it: whoever
    opens it holds the folder's lock.

    Raises:
        InputError: A line within the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, int] = {}
        self._lock = threading.Lock()
        if path.exists():
            content = path.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                os.truncate(path, whole)
            for place, key, _ in self._lines():
                self._places[key] = place

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def get(self, key: str) -> dict[str, Any] | None:
        """What was last written under the key."""
        if key not in self._places:
            return None
        with self.path.open("rb") as file:
            file.seek(self._places[key])
            _, entry = _parsed(file.readline(), f"a line of {self.path}")
        return entry

    def entries(self) -> Iterator[dict[str, Any]]:
        """Every entry ever written, superseded ones too: all of them were paid for."""
        if self.path.exists():
            for _, _, entry in self._lines():
                yield entry

    def append(self, key: str, entry: Mapping[str, Any]) -> None:
        """Write an entry; when this returns, killing the process does not lose it.

        Raises:
            StorageError: It cannot be written.
        """
        text = json.dumps({"key": key, "entry": entry}, ensure_ascii=False, separators=(",", ":"))
        with self._lock:
            place = self.path.stat().st_size if self.path.exists() else 0
            try:
                with self.path.open("ab") as file:
                    file.write(text.encode("utf-8", "surrogatepass") + b"\n")
            except OSError as error:
                with suppress(OSError):  # the next line must not go on from a torn one
                    os.truncate(self.path, place)
                raise storage_error(self.path, error) from error
            self._places[key] = place

    def _lines(self) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Where each line begins, its key and its entry."""
        place = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield place, *_parsed(line, f"line {number} of {self.path}")
                place += len(line)


def storage_error(path: Path, error: OSError) -> StorageError:
    """Say what cannot be written, why, and how to go on."""
    full = error.errno in _FULL
    reason = "the disk is full" if full else f"{error.strerror or error}"
    mend = "Free some space" if full else "Mend that"
    return StorageError(
        f"cannot write {path}: {reason}. What was written before is kept and not paid for again. "
        f"{mend}, and the same command goes on."
    )


def _parsed(line: bytes, where: str) -> tuple[str, dict[str, Any]]:
    try:
        content = json.loads(line.decode("utf-8", "surrogatepass"))
        return content["key"], content["entry"]
    except (ValueError, KeyError, TypeError) as error:
        msg = (
            f"{where} is damaged ({error!r}). Remove that line to pay for it again, or use another "
            "folder."
        )
        raise InputError(msg) from error
