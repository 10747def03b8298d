"""Format the numbers and settings of tables."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import pandas as pd
from rich.console import Console

from optim.reporting.tables import STUDY, to_rows
from optim.statistics.comparison import MIN_UNBIASED_QUESTIONS

Row: TypeAlias = Mapping[str, Any]

DASH = "\N{EN DASH}"
_SIGNS = str.maketrans(",-", "\N{NARROW NO-BREAK SPACE}\N{MINUS SIGN}")
_WIDE = 200  # columns of a file or a pipe


def number(value: float | None, digits: int = 0) -> str:
    """Return a number as text; None and NaN give a dash."""
    if value is None or math.isnan(value):
        return DASH
    return f"{value:,.{digits}f}".translate(_SIGNS)


def factor(value: float | None) -> str:
    """Return a positive figure of any size with three digits at least."""
    if value is not None and value >= 10_000_000:  # noqa: PLR2004
        return f"{value:.2e}"
    size = value or 0.0
    return number(value, 0 if size >= 100 else 1 if size >= 10 else 2)  # noqa: PLR2004


def format_settings(values: Mapping[str, object]) -> list[str]:
    """Return each setting as its name with a JSON value."""
    return [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]


def _with_interval(name: str, ends: str, digits: int | None) -> Callable[[Row], str]:
    def text(value: float | None) -> str:
        return factor(value) if digits is None else number(value, digits)

    def show(row: Row) -> str:
        value, low, high = row[name], row[f"{ends}lower"], row[f"{ends}upper"]
        cell = text(value)
        if (spread := row.get(f"{name}_sd")) is not None:
            cell += f" ±{number(spread, 2 if digits is None else digits)}"
        if low is None:
            return cell if value is None else f"{cell} ({DASH})"
        return f"{cell} ({text(low)} to {'∞' if high is None else text(high)})"

    return show


def _digits(name: str, digits: int = 0) -> Callable[[Row], str]:
    return lambda row: number(row[name], digits)


def _p_value(name: str) -> Callable[[Row], str]:
    def show(row: Row) -> str:
        value = row[name]
        return "< 0.001" if value is not None and value < 0.001 else number(value, 3)  # noqa: PLR2004

    return show


def _money(name: str) -> Callable[[Row], str]:
    """Return the text of an amount; money with a cache stands only where it is another amount."""

    def show(row: Row) -> str:
        if row[name] is None or (name != "money" and row[name] == row["money"]):
            return DASH
        return ("$ " if "$" in row["money_unit"] else "") + factor(row[name])

    return show


class Column(NamedTuple):
    """A column of a report."""

    show: Callable[[Row], str]  # writes a cell from a row of the table's figures
    tip: str = ""  # what the column is, for a person who points at its head


COLUMNS: dict[str, Column] = {
    "accuracy, %": Column(
        _with_interval("accuracy", "accuracy_", 1), "Mean score with its 95 % interval."
    ),
    "completion": Column(
        _with_interval("tokens", "tokens_", 0),
        "T: mean completion tokens of a question, planning included, with their 95 % interval.",
    ),
    "prompt": Column(_digits("input_tokens"), "Mean prompt tokens, cached ones included."),
    "cached": Column(_digits("cached_tokens"), "Mean cached prompt tokens."),
    "money": Column(
        _money("money"),
        "Mean price: US $ per 1,000 questions where all prices are known, else units (a prompt "
        "token is 1 unit, a completion token --price-ratio, 4 by default).",
    ),
    "cached money": Column(
        _money("cached_money"),
        "In units, if a cached prompt token costs a tenth of a prompt token.",
    ),
    "E³": Column(
        _with_interval("e3", "e3_", None),
        "accuracy² / T with its 95 % interval; plain and biased upwards below 30 questions.",
    ),
    "OckScore": Column(
        _digits("ock_score", 1), "accuracy \N{MINUS SIGN} 10 ln(all tokens / 10,000 + 1)."
    ),
    "n": Column(_digits("n"), "Answers with a score."),
    "errors": Column(
        lambda row: number(row["errors"] or None),
        "Answers that failed for an outside reason. They are in no other column.",
    ),
}
"""Columns of every table of figures. An entry here is all that a new one takes."""

_accuracy_difference = _with_interval("accuracy_difference", "accuracy_", 1)


def difference(pair: Row) -> str:
    """Return the paired difference of accuracy, which is undecided if no question differs."""
    return "undecided" if pair["discordant"] == 0 else _accuracy_difference(pair)


PAIR_COLUMNS: dict[str, Column] = {
    "ratio of E³": Column(
        _with_interval("ratio", "", None), "With the interval of the paired delta method."
    ),
    "p": Column(_p_value("p_value"), "Two-sided, for equal E³."),
    "p, Holm": Column(_p_value("p_value_holm"), "Corrected for the number of methods."),
    "ratio of T": Column(
        _with_interval("tokens_ratio", "tokens_", None), "Completion tokens over the baseline's."
    ),
    "accuracy, points": Column(difference, "Paired difference of accuracy."),
    "p of accuracy": Column(
        _p_value("accuracy_p_value"),
        "McNemar's exact test for one right or wrong answer each, else a paired t-test.",
    ),
    "p of accuracy, Holm": Column(_p_value("accuracy_p_value_holm"), "Corrected."),
    "better / worse": Column(
        lambda pair: f"{number(pair['gained'])} / {number(pair['lost'])}",
        "Questions on which the method scores higher and lower.",
    ),
    "questions": Column(_digits("questions"), "Questions that both have answered."),
}
"""Columns of a table of paired comparisons."""


def displayed(frame: pd.DataFrame, columns: Mapping[str, Column] = COLUMNS) -> pd.DataFrame:
    """Return a table of `figures` or of `paired` as text, without empty columns."""
    studies = [name for name in STUDY if name in frame and len(set(frame[name])) > 1]
    labels = [*studies, *(name for name in ("method", "level", "cap", "reason") if name in frame)]
    rows = [defaultdict(lambda: None, row) for row in to_rows(frame)]
    texts = pd.DataFrame(
        {name: str(row[name] or DASH) for name in labels}
        | {head: column.show(row) for head, column in columns.items()}
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
    for row in frame[frame.planned < frame.plans_wanted].itertuples():
        rest = "the other questions were solved as one step, not by this method."
        notes.append(f"{row.method}: planned {row.planned} of {row.plans_wanted}; {rest}")
    if (frame.runs > 1).any():
        notes.append("±: standard deviation over runs (epochs).")
    if not frame.is_measured.all():
        notes.append("Some tokens are estimated: the server reports none.")
    return notes


def console() -> Console:
    """Return a console for standard output, which is wide outside a terminal."""
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=_WIDE)
