"""Files of what was paid for: lines that are only ever appended, and claims of processes."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pb_graph.errors import InputError, PlanAndBudgetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

_FULL = {errno.ENOSPC, errno.EDQUOT}


class StorageError(PlanAndBudgetError):
    """What is paid for cannot be written down, so nothing more is paid for."""


class Journal:
    """A file of JSON objects that is only ever appended to, each under a key.

    A line counts once its line feed is written; each is written in one piece. Opening the file
    cuts off a last line that a killed process left torn. Of several lines with one key the last
    counts. Entries stay on disk, since they hold whole prompts. One process writes it: whoever
    opens it holds the folder's lock. Files that other processes write are read beside it.

    Raises:
        InputError: A line within the file is damaged.
    """

    def __init__(self, path: Path, others: Callable[[], Iterable[Path]] = tuple) -> None:
        self.path = path
        self._places: dict[str, tuple[Path, int]] = {}
        self._others = others
        self._read: Counter[Path] = Counter()
        self._lock = threading.Lock()
        if path.exists():
            content = path.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                os.truncate(path, whole)
            for place, key, _ in self._lines():
                self._places[key] = path, place

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def get(self, key: str) -> dict[str, Any] | None:
        """What was last written under the key."""
        if key not in self._places:
            return None
        path, place = self._places[key]
        with path.open("rb") as file:
            file.seek(place)
            _, entry = _parsed(file.readline(), f"a line of {path}")
        return entry

    def entries(self) -> Iterator[dict[str, Any]]:
        """Every entry ever written, superseded ones too: all of them were paid for."""
        if self.path.exists():
            for _, _, entry in self._lines():
                yield entry

    def refresh(self) -> list[dict[str, Any]]:
        """Read what other processes have written since; give these entries."""
        found = []
        with self._lock:
            for path in self._others():
                with path.open("rb") as file:
                    file.seek(self._read[path])
                    *lines, _ = file.read().split(b"\n")  # the last is empty, or not whole yet
                for line in lines:
                    key, entry = _parsed(line, f"a line of {path}")
                    if key not in self._places or entry.keys() > {"lost"}:
                        self._places[key] = path, self._read[path]
                    self._read[path] += len(line) + 1
                    found.append(entry)
        return found

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
            self._places[key] = self.path, place

    def _lines(self) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Where each line begins, its key and its entry."""
        place = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield place, *_parsed(line, f"line {number} of {self.path}")
                place += len(line)


class Claims:
    """Which request is being made, among processes that share their replies.

    A claim is a lock on one byte of a file, at a place that the key says; the system lets go of it
    when a process dies, however it does. Within a process a key is claimed once at a time.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")

    def take(self, key: str) -> bool:
        """Claim a key; whether no other process has it."""
        import fcntl  # noqa: PLC0415 -- not on Windows, where no processes share

        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(key))
        except BlockingIOError:
            return False
        return True

    def release(self, key: str) -> None:
        """Let go of a key."""
        import fcntl  # noqa: PLC0415

        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte(key))

    def close(self) -> None:
        """Let go of everything."""
        self._file.close()


def storage_error(path: Path, error: OSError) -> StorageError:
    """Say what cannot be written, why, and how to go on."""
    full = error.errno in _FULL
    reason = "the disk is full" if full else f"{error.strerror or error}"
    mend = "Free some space" if full else "Mend that"
    return StorageError(
        f"cannot write {path}: {reason}. What was written before is kept and not paid for again. "
        f"{mend}, and the same command goes on."
    )


def _byte(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:7])


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
