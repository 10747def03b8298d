"""Text of the numbers and settings in tables."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from optim.statistics.comparison import MIN_UNBIASED_QUESTIONS

Row: TypeAlias = Mapping[str, Any]

DASH = "\N{EN DASH}"
_SMALLEST_P = 0.001
_HUGE = 10_000.0
_WIDE = 200  # columns of a file or a pipe


def number(value: float | None, digits: int = 0) -> str:
    """Return a number with `digits` decimals, or a dash if there is none."""
    if value is None or value != value:  # noqa: PLR0124 -- NaN, which pandas has for None
        return DASH
    return f"{value:,.{digits}f}".replace(",", "\N{NARROW NO-BREAK SPACE}").replace(
        "-", "\N{MINUS SIGN}"
    )


def factor(value: float | None) -> str:
    """Return a positive figure of any size with about three digits."""
    if value is None or value != value:  # noqa: PLR0124
        return DASH
    if value >= _HUGE:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return number(value, 0 if value >= 100 else 1 if value >= 10 else 2)  # noqa: PLR2004


def format_interval(lower: float | None, upper: float | None, digits: int | None = None) -> str:
    """Return an interval; its upper end is infinite if there is none.

    Args:
        lower: Lower end.
        upper: Upper end.
        digits: Decimals, or None for about three digits.
    """
    if lower is None or lower != lower:  # noqa: PLR0124
        return DASH
    missing = upper is None or upper != upper  # noqa: PLR0124
    low, high = (factor(x) if digits is None else number(x, digits) for x in (lower, upper))
    return f"{low} to {'∞' if missing else high}"


def format_confidence(share: float) -> str:
    """Return a confidence from 0 to 1 in whole percent, rounded down and never 100 %."""
    return "> 99 %" if share > 0.99 else f"{math.floor(100 * share)} %"  # noqa: PLR2004


def p_value(value: float | None) -> str:
    """Return a p-value with three decimals."""
    if value is None or value != value:  # noqa: PLR0124
        return DASH
    return f"< {_SMALLEST_P}" if value < _SMALLEST_P else f"{value:.3f}"


def count(amount: int, noun: str) -> str:
    """Return an amount with its noun: ``1 answer``, ``2 answers``."""
    return f"{number(amount)} {noun}{'' if amount == 1 else 's'}"


def setting(value: object) -> str:
    """Return the value of a setting; a budget rule in a few words."""
    if isinstance(value, float):
        return f"{value:g}"
    if not isinstance(value, Mapping) or "rule" not in value:
        return str(value)
    if value["rule"] == "level_table":
        return "/".join(str(tokens) for tokens in value["tokens"].values())
    if value["rule"] == "per_level":
        return f"{value['initial']}+{value['per_level']}L"
    return str(value["tokens"])


def settings(changes: Mapping[str, object]) -> str:
    """Return several settings in one line."""
    return ", ".join(f"{name}={setting(value)}" for name, value in changes.items())


def settings_in_full(values: Mapping[str, object]) -> str:
    """Return settings as JSON, one line each."""
    return "\n".join(f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in values.items())


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table for readers.

    Attributes:
        head: Heading.
        tip: Explanation, shown as a tooltip on the page.
        show: Returns the text of a cell for a row of `optim.reporting.tables.figures`.
        is_needed: Whether a row has something to say; the column is left out where none has.
    """

    head: str
    tip: str
    show: Callable[[Row], str]
    is_needed: Callable[[Row], object] = lambda _row: True


def _with_interval(name: str, digits: int | None) -> Callable[[Row], str]:
    def show(row: Row) -> str:
        value, low, high = (row.get(f"{name}{end}") for end in ("", "_lower", "_upper"))
        text = factor(value) if digits is None else number(value, digits)
        if row.get(f"{name}_sd") is not None:
            text += f" ±{number(row[f'{name}_sd'], 2 if digits is None else digits)}"
        return text if low is None else f"{text} ({format_interval(low, high, digits)})"

    return show


def _plain(name: str, digits: int = 0) -> Callable[[Row], str]:
    return lambda row: number(row.get(name), digits)


COLUMNS = (
    Column("accuracy, %", "Mean score with its 95 % interval.", _with_interval("accuracy", 1)),
    Column(
        "completion", "T: mean completion tokens of a question, planning included, with their "
        "95 % interval.", _with_interval("tokens", 0),
    ),
    Column("prompt", "Mean prompt tokens of a question, cached ones included.",
           _plain("input_tokens")),
    Column("cached", "Mean cached prompt tokens of a question.", _plain("cached_tokens")),
    Column("money", "Mean price: US $ per 1,000 questions where all prices are known, else units "
           "(a prompt token is 1 unit, a completion token --price-ratio, 4 by default).",
           lambda row: ("$ " if "$" in row["money_unit"] else "") + factor(row.get("money"))),
    Column("E³", "accuracy² / T with its 95 % interval; plain and biased upwards below 30 "
           "questions.", _with_interval("e3", None)),
    Column("OckScore", "accuracy \N{MINUS SIGN} 10 ln(all tokens / 10,000 + 1).",
           _plain("ock_score", 1)),
    Column("n", "Answers with a score.", _plain("n")),
    Column("errors", "Answers that failed for an outside reason. They are in no other column.",
           _plain("errors"), lambda row: row["errors"]),
    Column("E³, errors as 0", "E³ with failed answers as wrong ones.",
           lambda row: factor(row.get("e3_with_errors")), lambda row: row["errors"]),
    Column("solving", "Mean completion tokens without planning.", _plain("solving_tokens"),
           lambda row: row.get("solving_tokens") != row.get("tokens")),
    Column("100 A/T", "Percentage points per 100 tokens, the paper's unit.",
           lambda row: number(100 * row["a_over_t"] if row.get("a_over_t") else None, 1)),
    Column("seconds", "Mean seconds of model time.", _plain("seconds", 1)),
    Column("level", "label: told by the data set, free of charge; estimated: paid for, in T.",
           lambda row: row["level_source"] or DASH, lambda row: row["level_source"]),
    Column("unboxed, %", "Answers without a box: a number is read from them all the same.",
           _plain("unboxed"), lambda row: row.get("unboxed") is not None),
)  # fmt: skip
"""Columns of every table of figures, the most important first."""

_LABELS = ("dataset", "model", "planner", "method")


def displayed(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return the rows of a table for readers: text by heading.

    Labels that are equal in all rows are left out, and columns in which no row has anything.
    """
    labels = [n for n in _LABELS if n == "method" or len({row.get(n) for row in rows}) > 1]
    columns = [column for column in COLUMNS if any(column.is_needed(row) for row in rows)]
    return [
        {name: str(row.get(name, DASH)) for name in labels}
        | {column.head: column.show(row) for column in columns}
        for row in rows
    ]


def console() -> Console:
    """Return the standard output; wide where no terminal says how wide it is."""
    found = Console()
    return found if found.is_terminal else Console(width=_WIDE)


def plain_text(*shown: RenderableType) -> str:
    """Return what would be printed, one below the other."""
    file = io.StringIO()
    Console(file=file, width=console().width, force_jupyter=False).print(*shown, sep="\n")
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def text_table(rows: Sequence[Mapping[str, str]]) -> Table:
    """Return rows of text as a table for a terminal; no cell is cut."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for place, head in enumerate(rows[0] if rows else ()):
        table.add_column(head, justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(value) for value in row.values()))
    return table


def remarks(rows: Sequence[Row]) -> list[str]:
    """Return what a reader of rows of figures has to know."""
    found = []
    if any(row.get("e3") is not None and row["questions"] < MIN_UNBIASED_QUESTIONS for row in rows):
        found.append(f"E³ of fewer than {MIN_UNBIASED_QUESTIONS} questions is biased upwards.")
    if any(row["level_source"] == "label" for row in rows):
        found.append(
            "level: label: told by the data set, free of charge; --estimate-level charges it."
        )
    if any((row.get("runs") or 0) > 1 for row in rows):
        found.append("±: standard deviation over runs (epochs).")
    if not all(row["is_measured"] for row in rows):
        found.append("Some tokens are estimated: the server reports none.")
    return found
