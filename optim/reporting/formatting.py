"""Format the numbers and settings of tables."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pandas as pd
from rich.console import Console

from optim.reporting.tables import STUDY, to_rows
from optim.statistics.comparison import MIN_UNBIASED_QUESTIONS

Row: TypeAlias = Mapping[str, Any]

DASH = "\N{EN DASH}"
_SIGNS = str.maketrans(",-", "\N{NARROW NO-BREAK SPACE}\N{MINUS SIGN}")
_WIDE = 200  # columns of a file or a pipe


def number(value: float | None, digits: int = 0) -> str:
    """Return a number as text.

    Args:
        value: The number. None, or NaN, gives a dash.
        digits: Number of decimals.
    """
    if value is None or math.isnan(value):
        return DASH
    return f"{value:,.{digits}f}".translate(_SIGNS)


def factor(value: float | None) -> str:
    """Return a positive figure of any size with about three digits."""
    if value is not None and value >= 10_000:  # noqa: PLR2004
        return f"{value:.0e}"
    size = value or 0.0
    return number(value, 0 if size >= 100 else 1 if size >= 10 else 2)  # noqa: PLR2004


def _interval(lower: float | None, upper: float | None, digits: int | None = None) -> str:
    """Return an interval; its upper end is infinite if there is none."""
    if lower is None:
        return DASH
    low, high = (factor(end) if digits is None else number(end, digits) for end in (lower, upper))
    return f"{low} to {'∞' if upper is None else high}"


def p_value(value: float | None) -> str:
    """Return a p-value with three decimals."""
    return "< 0.001" if value is not None and value < 0.001 else number(value, 3)  # noqa: PLR2004


def format_settings(values: Mapping[str, object]) -> list[str]:
    """Return each setting as its name with a JSON value."""
    return [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]


def _with_interval(name: str, ends: str, digits: int | None) -> Callable[[Row], str]:
    def show(row: Row) -> str:
        value, low, high = row[name], row[f"{ends}lower"], row[f"{ends}upper"]
        text = factor(value) if digits is None else number(value, digits)
        if (spread := row.get(f"{name}_sd")) is not None:
            text += f" ±{number(spread, 2 if digits is None else digits)}"
        has_none = value is None and low is None
        return text if has_none else f"{text} ({_interval(low, high, digits)})"

    return show


def _money(row: Row) -> str:
    return ("$ " if "$" in row["money_unit"] else "") + factor(row["money"])


Columns: TypeAlias = Mapping[str, Callable[[Row], str]]

COLUMNS: Columns = {
    "accuracy, %": _with_interval("accuracy", "accuracy_", 1),
    "completion": _with_interval("tokens", "tokens_", 0),
    "prompt": lambda row: number(row["input_tokens"]),
    "cached": lambda row: number(row["cached_tokens"]),
    "money": _money,
    "E³": _with_interval("e3", "e3_", None),
    "OckScore": lambda row: number(row["ock_score"], 1),
    "n": lambda row: number(row["n"]),
    "errors": lambda row: number(row["errors"] or None),
}
"""Columns of every table of figures; the page's template explains each of them."""

_accuracy_difference = _with_interval("accuracy_difference", "accuracy_", 1)


def difference(pair: Row) -> str:
    """Return the paired difference of accuracy, which is undecided if no question differs."""
    return "undecided" if pair["discordant"] == 0 else _accuracy_difference(pair)


PAIR_COLUMNS: Columns = {
    "ratio of E³": _with_interval("ratio", "", None),
    "p": lambda pair: p_value(pair["p_value"]),
    "p, Holm": lambda pair: p_value(pair["p_value_holm"]),
    "ratio of T": _with_interval("tokens_ratio", "tokens_", None),
    "accuracy, points": difference,
    "p of accuracy": lambda pair: p_value(pair["accuracy_p_value"]),
    "p of accuracy, Holm": lambda pair: p_value(pair["accuracy_p_value_holm"]),
    "better / worse": lambda pair: f"{number(pair['gained'])} / {number(pair['lost'])}",
    "questions": lambda pair: number(pair["questions"]),
}
"""Columns of a table of paired comparisons."""


def displayed(frame: pd.DataFrame, columns: Columns = COLUMNS) -> pd.DataFrame:
    """Return a table as text, without empty columns.

    Args:
        frame: A table of `figures`, or of `paired`.
        columns: Heads, each with the function that writes its cells.
    """
    studies = [name for name in STUDY if name in frame and len(set(frame[name])) > 1]
    labels = [*studies, *(name for name in ("method", "level", "reason") if name in frame)]
    rows = [defaultdict(lambda: None, row) for row in to_rows(frame)]
    texts = pd.DataFrame(
        {name: str(row[name] or DASH) for name in labels}
        | {head: show(row) for head, show in columns.items()}
        for row in rows
    )
    return texts[[name for name in texts if name in labels or (texts[name] != DASH).any()]]


def text_table(texts: pd.DataFrame) -> str:
    """Return a text table for a terminal, in blocks of columns if the terminal is narrow."""
    if texts.empty:
        return ""
    first = texts.columns[0]
    titled = texts.set_index(first).rename_axis(None).rename_axis(first, axis=1)
    text: str = titled.to_string(line_width=console().width)
    return text


def remarks(frame: pd.DataFrame) -> list[str]:
    """Return the notes below a table of figures."""
    notes = []
    if (frame.e3.notna() & (frame.questions < MIN_UNBIASED_QUESTIONS)).any():
        notes.append(
            f"E³ of fewer than {MIN_UNBIASED_QUESTIONS} questions, and a ratio of it, is biased "
            "upwards."
        )
    if names := ", ".join(frame.method[frame.level_source == "label"].unique()):
        notes.append(
            f"{names}: the data set told the levels, free of charge; --estimate-level charges them."
        )
    if (frame.runs > 1).any():
        notes.append("±: standard deviation over runs (epochs).")
    if not frame.is_measured.all():
        notes.append("Some tokens are estimated: the server reports none.")
    return notes


def console() -> Console:
    """Return a console for standard output, which is wide outside a terminal."""
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=_WIDE)
