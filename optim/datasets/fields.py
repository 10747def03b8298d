"""Reading one column of a row, with an error that says what is wrong with it."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from optim.datasets.dataset import LEVELS, Row
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["answers", "content_id", "level", "optional_text", "text"]

_LEVEL = re.compile(r"(?:level\s*)?([0-9]+)(?:\.0+)?", re.IGNORECASE)
_ID_DIGITS = 12


def text(row: Row, column: str) -> str:
    """Give a column that must hold some text; a number is taken as its digits."""
    value = optional_text(row, column)
    if value is None:
        present = ", ".join(map(str, row)) or "none"
        msg = f"no {column!r} (columns: {present})" if column not in row else f"{column!r} is empty"
        raise InputError(msg)
    return value


def optional_text(row: Row, column: str) -> str | None:
    """Give a column's text without outer white space, or None when it is absent or empty."""
    value = row.get(column)
    if _is_missing(value):
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        msg = f"{column!r} holds {type(value).__name__}, not text"
        raise InputError(msg)
    return str(value).strip() or None


def answers(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    """Give the accepted answers from the first of these columns that is present.

    A column may hold one answer or a list of them; the same answer twice counts once. Where all
    are absent, the error names the last.
    """
    column = next((name for name in columns if not _is_missing(row.get(name))), columns[-1])
    value = row.get(column)
    if not isinstance(value, (list, tuple)):
        return (text(row, column),)
    found = tuple(dict.fromkeys(text({column: item}, column) for item in value))
    if not found:
        msg = f"{column!r} is an empty list"
        raise InputError(msg)
    return found


def level(row: Row, column: str = "level", *, required: bool = False) -> int | None:
    """Give a difficulty from 1 to 5; "Level 3" and "3" are read as 3."""
    value = text(row, column) if required else optional_text(row, column)
    if value is None:
        return None
    match = _LEVEL.fullmatch(value)
    number = int(match[1]) if match and len(match[1]) == 1 else None
    if number not in LEVELS:
        msg = f"{column} {value!r} is outside 1 to 5"
        raise InputError(msg)
    return number


def content_id(prefix: str, content: str) -> str:
    """Give an id to an item that comes without one: the same text has it in any file and order."""
    return f"{prefix}-{hashlib.sha256(content.encode()).hexdigest()[:_ID_DIGITS]}"


def _is_missing(value: Any) -> bool:  # noqa: ANN401 - whatever a file holds
    # NaN is what tables hold for an empty cell, and the only value unlike itself.
    return value is None or value == "" or (isinstance(value, float) and value != value)  # noqa: PLR0124
