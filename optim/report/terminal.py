"""Tables for a terminal: the figures of an evaluation, and rows of plain values."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from optim.report.columns import COLUMNS, RATE_COLUMNS
from optim.report.formatting import NOTHING
from optim.statistics.comparison import FEW
from optim.summary import Cells, Row

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, JustifyMethod, RenderableType, RenderResult


_COLUMNS = (*COLUMNS, *RATE_COLUMNS)
BIASED = f"E³ of fewer than {FEW} questions is biased upwards."

_LABELS = ("dataset", "model", "planner")  # say nothing while there is only one
_WIDE = 200  # columns of a file or a pipe, where a table is not to be cut
_GAP = 2  # columns between two of a table
_NARROWEST = 8  # a label of so many characters is folded no further


def console() -> Console:
    """Standard output; wide when no terminal says how wide it is."""
    found = Console()
    return found if found.is_terminal else Console(width=_WIDE)


def plain_text(*shown: RenderableType) -> str:
    """What would be printed, one below the other, as wide as the terminal is."""
    file = io.StringIO()
    Console(file=file, width=console().width, force_jupyter=False).print(*shown, sep="\n")
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def grid_of(rows: Sequence[Cells]) -> Table:
    """Lay out rows that have the same columns; below, what their E³ lacks, if they have any."""
    grid = Table(box=None, header_style="bold", pad_edge=False)
    names = rows[0] if rows else {}
    shown = [n for n in names if n not in _LABELS or len({row[n] for row in rows}) > 1]
    if all(row.get("questions") == row.get("n") for row in rows):  # one answer to each
        shown = [name for name in shown if name != "questions"]
    for name in shown:
        side: JustifyMethod = "left" if isinstance(rows[0][name], str) else "right"
        grid.add_column(name.replace("_", " "), justify=side, no_wrap=True)
    for row in rows:
        grid.add_row(*(Text(_text(row[name])) for name in shown))
    asked = [row.get("questions", row["n"]) for row in rows if row.get("E³") is not None]
    if any(isinstance(count, int) and count < FEW for count in asked):
        grid.caption, grid.caption_style, grid.caption_justify = BIASED, "yellow", "left"
    return grid


@dataclass(frozen=True, slots=True)
class Figures:
    """A table that shows as many columns as fit, the essential ones always and in full."""

    rows: Sequence[Row]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Make the table for the width that there is."""
        names, columns = self._columns()
        left_out = _left_out(names, columns, options.max_width)
        grid = Table(box=None, header_style="bold", pad_edge=False)
        for name in names:
            grid.add_column(name, overflow="fold", no_wrap=name == "method")
        for head in columns:
            if head not in left_out:
                grid.add_column(head, justify="right", no_wrap=True)
        shown = [cells for head, cells in columns.items() if head not in left_out]
        for cells in zip(*names.values(), *shown, strict=True):
            grid.add_row(*map(Text, cells))
        yield grid
        yield from notes(self.rows, left_out)

    def __str__(self) -> str:
        """The table as wide as the terminal is."""
        return plain_text(self)

    def _repr_html_(self) -> str:
        """The table as a notebook shows it, with all columns."""
        names, columns = self._columns()
        heads = "".join(f"<th>{escape(head)}</th>" for head in [*names, *columns])
        lines = zip(*names.values(), *columns.values(), strict=True)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in lines
        )
        below = "".join(f"<p>{escape(note.plain)}</p>" for note in notes(self.rows))
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{below}"

    def _columns(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Labels of the rows, and their figures, by the names of the columns."""
        labels = [n for n in _LABELS if len({getattr(row, n) for row in self.rows}) > 1]
        names = {n: [getattr(row, n) for row in self.rows] for n in [*labels, "method"]}
        return names, {
            column.short or column.head: [column.plain(row) for row in self.rows]
            for column in _COLUMNS
            if column.among(self.rows)
        }


def _left_out(names: dict[str, list[str]], columns: dict[str, list[str]], width: int) -> list[str]:
    """The columns to leave out, the least important first, until the others fit."""
    sizes = {
        head: max(map(cell_len, [*head.split("\n"), *cells])) + _GAP
        for head, cells in columns.items()
    }
    needed = sum(
        max(
            [cell_len(n), *(min(cell_len(c), _NARROWEST if n in _LABELS else width) for c in cells)]
        )
        + _GAP
        for n, cells in names.items()
    )
    out: list[str] = []
    ranks = {column.short or column.head: column.rank for column in _COLUMNS}
    for head in sorted(columns, key=lambda head: -ranks[head]):
        fits = needed - _GAP + sum(sizes[h] for h in columns if h not in out) <= width
        if fits or not ranks[head]:
            break
        out.append(head)
    return out


def notes(rows: Sequence[Row], left_out: Sequence[str] = ()) -> Iterator[Text]:
    """What has to be known to read the figures of these rows, and what had no room."""
    if any(row.e3 is not None and row.questions < FEW for row in rows):
        yield Text(BIASED, style="yellow")
    if any(row.level == "label" for row in rows):
        free = "level: label: told by the data set, free of charge; --estimate-level charges it."
        yield Text(free, style="dim")
    if any((row.runs or 0) > 1 for row in rows):
        yield Text("±: standard deviation over runs (epochs).", style="dim")
    if left_out:
        names = ", ".join(left_out).replace("\n", " ")
        yield Text(f"Too narrow for: {names}. All is in --json.", style="dim")


def _text(value: str | float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.2f}" if isinstance(value, float) else str(value)
