"""Tables for a terminal: the figures of an evaluation, and rows of plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from optim.report.formatting import NOTHING
from optim.summary import FEW, RATES, Cells, Row

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, JustifyMethod, RenderResult


__all__ = ["Figures", "console", "grid_of", "notes", "table"]

BIASED = f"E³ of fewer than {FEW} questions is biased upwards."

_LABELS = ("dataset", "model", "planner")  # say nothing while there is only one
_WIDE = 200  # columns of a file or a pipe, where a table is not to be cut
_GAP = 2  # columns between two of a table
_NARROWEST = 8  # a label of so many characters is folded no further


def console() -> Console:
    """Standard output; wide when no terminal says how wide it is."""
    found = Console()
    return found if found.is_terminal else Console(width=_WIDE)


def grid_of(rows: Sequence[Cells]) -> Table:
    """Lay out rows that have the same columns; below, what their E³ lacks, if they have any."""
    grid = Table(box=None, header_style="bold", pad_edge=False)
    names = rows[0] if rows else {}
    shown = [n for n in names if n not in _LABELS or len({row[n] for row in rows}) > 1]
    for name in shown:
        side: JustifyMethod = "left" if isinstance(rows[0][name], str) else "right"
        grid.add_column(name.replace("_", " "), justify=side, no_wrap=True)
    for row in rows:
        grid.add_row(*(Text(_text(row[name])) for name in shown))
    counts = [row["n"] for row in rows if row.get("E³") is not None]
    if any(isinstance(n, int) and n < FEW for n in counts):
        grid.caption, grid.caption_style, grid.caption_justify = BIASED, "yellow", "left"
    return grid


def table(summary: Sequence[Row], title: str | None = None) -> Figures:
    """Lay the rows out for a terminal of any width, with what a reader has to know below."""
    return Figures(summary, title)


@dataclass(frozen=True, slots=True)
class Figures:
    """A table that shows as many columns as fit, the essential ones always and in full.

    Attributes:
        rows: What to show.
        title: Above the table.
    """

    rows: Sequence[Row]
    title: str | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Make the table for the width that there is."""
        labels = [n for n in _LABELS if len({getattr(row, n) for row in self.rows}) > 1]
        columns = {
            head: [cell(row) for row in self.rows]
            for head, (_, cell) in _COLUMNS.items()
            if head not in _WHEN or any(_WHEN[head](row) for row in self.rows)
        }
        names = {n: [getattr(row, n) for row in self.rows] for n in [*labels, "method"]}
        left_out = _left_out(names, columns, options.max_width)
        grid = Table(title=self.title, box=None, header_style="bold", pad_edge=False)
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


def _left_out(names: dict[str, list[str]], columns: dict[str, list[str]], width: int) -> list[str]:
    """The columns to leave out, the least important first, until the others fit."""
    sizes = {
        head: max(map(cell_len, [*head.split("\n"), *cells])) + _GAP
        for head, cells in columns.items()
    }
    needed = sum(
        max(cell_len(n), *(min(cell_len(c), _NARROWEST if n in _LABELS else width) for c in cells))
        + _GAP
        for n, cells in names.items()
    )
    out: list[str] = []
    for head in sorted(columns, key=lambda head: -_COLUMNS[head][0]):
        fits = needed - _GAP + sum(sizes[h] for h in columns if h not in out) <= width
        if fits or not _COLUMNS[head][0]:
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


def _with_sd(value: float | None, sd: float | None, digits: int) -> str:
    return _number(value, digits) + ("" if sd is None else f" ±{_number(sd, digits)}")


def _rate(name: str) -> Callable[[Row], str]:
    return lambda row: NOTHING if row.rates is None else f"{100 * row.rates[name]:.1f}"


def _number(value: float | None, digits: int = 2) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _span(lower: float | None, upper: float | None) -> str:
    return NOTHING if lower is None else f"{lower:.2f} {NOTHING} {_number(upper)}"


def _text(value: str | float | None) -> str:
    if value is None or isinstance(value, float):
        return _number(value)
    return str(value)


_RATES = {name.replace("_", "\n") + " %": name for name in RATES}  # heads of two lines
# Heading: when to leave the column out where there is no room (0: never), and its cells.
_COLUMNS: dict[str, tuple[int, Callable[[Row], str]]] = {
    "n": (1, lambda row: str(row.n)),
    "errors": (2, lambda row: str(row.errors)),
    "accuracy %": (0, lambda row: _with_sd(row.accuracy, row.accuracy_sd, 1)),
    "T": (0, lambda row: _with_sd(row.tokens, row.tokens_sd, 0)),
    "T solving": (6, lambda row: _number(row.solving_tokens, 0)),
    "E³": (0, lambda row: _with_sd(row.e3, row.e3_sd, 2)),
    "95 % interval": (0, lambda row: _span(row.e3_lower, row.e3_upper)),
    "E³, errors 0": (5, lambda row: _number(row.e3_with_errors)),
    "level": (3, lambda row: row.level or NOTHING),
    "unboxed %": (4, lambda row: _number(None if row.unboxed is None else 100 * row.unboxed, 0)),
    **{head: (5, _rate(name)) for head, name in _RATES.items()},
    "A/T": (8, lambda row: _number(row.a_over_t, 3)),
    "seconds": (7, lambda row: _number(row.seconds, 1)),
}  # fmt: skip
# Columns that some row has to have something to say in.
_WHEN: dict[str, Callable[[Row], object]] = {
    "E³, errors 0": lambda row: row.errors,
    "level": lambda row: row.level,
    "unboxed %": lambda row: row.unboxed is not None,
} | {head: lambda row: row.rates for head in _RATES}
