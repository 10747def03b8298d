"""What has been paid for, kept as JSON lines: a killed run goes on where it was.

A line counts once its line feed is written. Each is written in one piece and flushed, so that a
process killed at any moment loses at most the line it was writing.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["Journal"]


class Journal:
    """A file of JSON objects that is only ever appended to, each under a key.

    Opening it cuts off a last line that a killed process left torn. Of several lines with one key
    the last counts. Entries stay on disk, since they hold whole prompts. One process at a time:
    whoever opens it holds the folder's lock.

    Args:
        path: The file; made with the first line.

    Raises:
        InputError: A line within the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, int] = {}
        if path.exists():
            self._mend()
            for place, line in self._lines():
                self._places[line["key"]] = place

    def __len__(self) -> int:
        return len(self._places)

    def get(self, key: str) -> dict[str, Any] | None:
        """What was last written under the key."""
        if key not in self._places:
            return None
        with self._path.open("rb") as file:
            file.seek(self._places[key])
            entry: dict[str, Any] = _parsed(file.readline())["entry"]
        return entry

    def entries(self) -> Iterator[dict[str, Any]]:
        """Every entry ever written, superseded ones too: all of them were paid for."""
        if self._path.exists():
            for _, line in self._lines():
                yield line["entry"]

    def append(self, key: str, entry: Mapping[str, Any]) -> None:
        """Write an entry; when this returns, killing the process does not lose it."""
        text = json.dumps({"key": key, "entry": entry}, ensure_ascii=False, separators=(",", ":"))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            place = file.tell()
            file.write(text.encode("utf-8", "surrogatepass") + b"\n")
        self._places[key] = place

    def _mend(self) -> None:
        content = self._path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self._path, whole)

    def _lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Every line, and where it begins."""
        place = 0
        with self._path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield place, _parsed(line)
                except (ValueError, KeyError, TypeError) as error:
                    msg = (
                        f"line {number} of {self._path} is damaged ({error!r}). Remove that line "
                        "to pay for it again, or use another folder."
                    )
                    raise InputError(msg) from error
                place += len(line)


def _parsed(line: bytes) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(line.decode("utf-8", "surrogatepass"))
    return {"key": content["key"], "entry": content["entry"]}
