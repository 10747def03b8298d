"""Tables for a terminal: the figures of an evaluation, and rows of plain values.

A line of `COLUMNS` is a figure here and on the page.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from optim.report.formatting import NOTHING, ends, factor, number, span
from optim.statistics.comparison import FEW
from optim.statistics.estimates import PERCENT
from optim.summary import RATES, Cells, Row

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, JustifyMethod, RenderableType, RenderResult


BIASED = f"E³ of fewer than {FEW} questions is biased upwards."

_UNITS = {"accuracy": "accuracy %"}  # of keys that JSON has as they are
_LABELS = ("dataset", "model", "planner")  # say nothing while there is only one
_WIDE = 200  # columns of a file or a pipe, where a table is not to be cut
_GAP = 2  # columns between two of a table
_NARROWEST = 8  # a label of so many characters is normalized no further


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a method, and how it is shown.

    Attributes:
        field: Of `Row`; a TravelPlanner rate's name.
        head: On the page.
        digits: Decimals; None for three digits of whatever size, two decimals at a terminal.
        rank: What is left out first where a terminal is narrow; 0 never is.
        short: Head at a terminal, if another.
        best: Which of several values is marked on the page, if any.
        sd: Field of the standard deviation over runs, if there is one.
        upper: Field of the other end, for an interval.
        factor: What the field is multiplied by.
        needed: Whether some row has something to say in it; None for always.
    """

    field: str
    head: str
    digits: int | None = 0
    rank: int = 0
    short: str | None = None
    best: Callable[[Sequence[float]], float] | None = None
    sd: str | None = None
    upper: str | None = None
    factor: float = 1.0
    needed: Callable[[Row], object] | None = None

    def among(self, rows: Sequence[Row]) -> bool:
        """Whether the column has something to say about these rows."""
        return self.needed is None or any(self.needed(row) for row in rows)

    def value(self, row: Row) -> float | str | None:
        """What the row has in it."""
        held = (
            (row.rates or {}).get(self.field) if self.field in RATES else getattr(row, self.field)
        )
        return held if held is None or isinstance(held, str) else held * self.factor

    def top(self, rows: Sequence[Row]) -> float | None:
        """The best of several values; None where none is marked."""
        values = [value for row in rows if isinstance(value := self.value(row), float)]
        return self.best(values) if self.best and len(values) > 1 else None

    def cell(self, row: Row) -> str:
        """The value on the page."""
        value = self.value(row)
        if isinstance(value, str):
            return value
        if self.upper:
            return span(value, getattr(row, self.upper))
        return factor(value) if self.digits is None else number(value, self.digits)

    def deviation(self, row: Row) -> str:
        """The standard deviation on the page; empty without one."""
        found = getattr(row, self.sd) if self.sd else None
        return (
            "" if found is None else f"±{number(found, 2 if self.digits is None else self.digits)}"
        )

    def plain(self, row: Row) -> str:
        """The value at a terminal, with its standard deviation."""
        value, other = self.value(row), getattr(row, self.upper or self.sd or "", None)
        if value is None or isinstance(value, str):
            return value or NOTHING
        digits = 2 if self.digits is None else self.digits
        if self.upper:
            return ends(value, other, digits)
        return f"{value:.{digits}f}" + ("" if other is None else f" ±{other:.{digits}f}")


COLUMNS = (
    Column("accuracy", "score, %", 1, short="accuracy %", best=max, sd="accuracy_sd"),
    Column("accuracy_lower", "95 % of score", 1, rank=5, short="95 % of A", upper="accuracy_upper"),
    Column("tokens", "T", best=min, sd="tokens_sd"),
    Column("solving_tokens", "T without planning", rank=6, short="T solving", best=min),
    Column("e3", "E³", None, best=max, sd="e3_sd"),
    Column("e3_lower", "95 % interval", None, upper="e3_upper"),
    Column("a_over_t", "A/T", 3, rank=8, best=max),
    Column("seconds", "seconds", 1, rank=7, best=min),
    Column("n", "n", rank=1),
    Column("errors", "errors", rank=2),
    Column(
        "e3_with_errors", "E³, errors as 0", None, short="E³, errors 0", rank=5,
        needed=lambda row: row.errors,
    ),
    Column("level", "level", rank=3, needed=lambda row: row.level),
    Column(
        "unboxed", "unboxed, %", short="unboxed %", rank=4, factor=PERCENT,
        needed=lambda row: row.unboxed is not None,
    ),
)  # fmt: skip

RATE_COLUMNS = tuple(
    Column(
        name, name.replace("_", " "), 1, rank=5, short=name.replace("_", "\n") + " %",
        factor=PERCENT, needed=lambda row: row.rates,
    )
    for name in RATES
)  # fmt: skip
"""TravelPlanner's rates, in a table of their own on the page."""
_COLUMNS = (*COLUMNS, *RATE_COLUMNS)


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
        words = _UNITS.get(name, name.replace("_", " "))
        cells = [_text(row[name]) for row in rows]
        side: JustifyMethod = "left" if isinstance(rows[0][name], str) else "right"
        # Where a terminal is narrow, heads go on in a further line, and texts; no figure is cut.
        figures = cells if side == "right" else []
        least = max(map(cell_len, [*words.split(), *figures]))
        grid.add_column(words, justify=side, overflow="fold", min_width=least)
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
