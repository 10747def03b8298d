"""The columns of figures: one line here is shown at the terminal and on the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.report.formatting import NOTHING, factor, number, span
from optim.statistics.estimates import PERCENT
from optim.summary import RATES

if TYPE_CHECKING:
    from optim.summary import Row


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
        value, ends = self.value(row), getattr(row, self.upper or self.sd or "", None)
        if value is None or isinstance(value, str):
            return value or NOTHING
        digits = 2 if self.digits is None else self.digits
        shown = f"{value:.{digits}f}"
        if self.upper:
            return f"{shown} {NOTHING} {NOTHING if ends is None else f'{ends:.{digits}f}'}"
        return shown if ends is None else f"{shown} ±{ends:.{digits}f}"


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
