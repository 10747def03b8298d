"""Prints rows of plain values as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import JustifyMethod

__all__ = ["Cells", "console", "grid_of"]

Cells = Mapping[str, str | int | float | None]
"""One row: column name to value."""

_LABELS = ("dataset", "planner")  # say nothing while there is only one
_NOTHING = "–"  # noqa: RUF001 -- an en dash stands for nothing
_WIDE = 200  # columns of a file or a pipe, where a table is not to be cut


def console() -> Console:
    """Standard output; wide when no terminal says how wide it is."""
    found = Console()
    return found if found.is_terminal else Console(width=_WIDE)


def grid_of(rows: Sequence[Cells]) -> Table:
    """Lay out rows that have the same columns."""
    grid = Table(box=None, header_style="bold", pad_edge=False)
    shown = [name for name in (rows[0] if rows else {}) if _tells(name, rows)]
    for name in shown:
        side: JustifyMethod = "left" if isinstance(rows[0][name], str) else "right"
        grid.add_column(name.replace("_", " "), justify=side, no_wrap=True)
    for row in rows:
        grid.add_row(*(Text(_text(row[name])) for name in shown))
    return grid


def _tells(name: str, rows: Sequence[Cells]) -> bool:
    return name not in _LABELS or len({row[name] for row in rows}) > 1


def _text(value: str | float | None) -> str:
    if value is None:
        return _NOTHING
    return f"{value:.2f}" if isinstance(value, float) else str(value)
