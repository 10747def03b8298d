"""Text of the numbers and settings in tables."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pandas as pd
from rich.console import Console, RenderableType

from optim.reporting.tables import BY, to_rows
from optim.statistics.comparison import MIN_UNBIASED_QUESTIONS

Row: TypeAlias = Mapping[str, Any]

DASH = "\N{EN DASH}"
_SIGNS = str.maketrans(",-", "\N{NARROW NO-BREAK SPACE}\N{MINUS SIGN}")
_WIDE = 200  # columns of a file or a pipe


def number(value: float | None, digits: int = 0) -> str:
    """Return a number with `digits` decimals, or a dash if there is none."""
    if value is None or math.isnan(value):
        return DASH
    return f"{value:,.{digits}f}".translate(_SIGNS)


def factor(value: float | None) -> str:
    """Return a positive figure of any size with about three digits."""
    if value is not None and value >= 10_000:  # noqa: PLR2004
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    size = value or 0.0
    return number(value, 0 if size >= 100 else 1 if size >= 10 else 2)  # noqa: PLR2004


def format_interval(lower: float | None, upper: float | None, digits: int | None = None) -> str:
    """Return an interval; its upper end is infinite if there is none."""
    if lower is None:
        return DASH
    low, high = (factor(end) if digits is None else number(end, digits) for end in (lower, upper))
    return f"{low} to {'∞' if upper is None else high}"


def format_confidence(share: float) -> str:
    """Return a confidence from 0 to 1 in whole percent, rounded down and never 100 %."""
    return "> 99 %" if share > 0.99 else f"{math.floor(100 * share)} %"  # noqa: PLR2004


def p_value(value: float | None) -> str:
    """Return a p-value with three decimals."""
    return "< 0.001" if value is not None and value < 0.001 else number(value, 3)  # noqa: PLR2004


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


def _with_interval(name: str, digits: int | None) -> Callable[[Row], str]:
    def show(row: Row) -> str:
        value, low, high, spread = (row[f"{name}{end}"] for end in ("", "_lower", "_upper", "_sd"))
        text = factor(value) if digits is None else number(value, digits)
        text += "" if spread is None else f" ±{number(spread, 2 if digits is None else digits)}"
        return text if low is None else f"{text} ({format_interval(low, high, digits)})"

    return show


def _money(row: Row) -> str:
    return ("$ " if "$" in row["money_unit"] else "") + factor(row["money"])


COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "accuracy, %": _with_interval("accuracy", 1),
    "completion": _with_interval("tokens", 0),
    "prompt": lambda row: number(row["input_tokens"]),
    "cached": lambda row: number(row["cached_tokens"]),
    "money": _money,
    "E³": _with_interval("e3", None),
    "OckScore": lambda row: number(row["ock_score"], 1),
    "n": lambda row: number(row["n"]),
    "errors": lambda row: number(row["errors"] or None),
    "E³, errors as 0": lambda row: factor(row["e3_with_errors"] if row["errors"] else None),
    "level from": lambda row: row["level_source"] or DASH,
    "unboxed, %": lambda row: number(row["unboxed"]),
}
"""Columns of every table of figures; the page's template explains each of them."""


def displayed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of figures as text, without columns in which no row has anything."""
    own = ("method", "level")
    labels = [n for n in (*BY, "level") if n in frame and (n in own or len(set(frame[n])) > 1)]
    texts = pd.DataFrame(
        {name: DASH if row[name] is None else str(row[name]) for name in labels}
        | {head: show(row) for head, show in COLUMNS.items()}
        for row in to_rows(frame)
    )
    return texts[[name for name in texts if name in labels or (texts[name] != DASH).any()]]


def text_table(texts: pd.DataFrame) -> str:
    """Return a table of text for a terminal, in blocks of columns where it is narrow."""
    if texts.empty:
        return ""
    first = texts.columns[0]
    shown = texts.set_index(first).rename_axis(None).rename_axis(first, axis=1)
    text: str = shown.to_string(line_width=console().width)
    return text


def remarks(frame: pd.DataFrame) -> list[str]:
    """Return what a reader of a table of figures has to know."""
    found = []
    if (frame.e3.notna() & (frame.questions < MIN_UNBIASED_QUESTIONS)).any():
        found.append(
            f"E³ of fewer than {MIN_UNBIASED_QUESTIONS} questions, and a ratio of it, is biased "
            "upwards."
        )
    if names := ", ".join(frame.method[frame.level_source == "label"].unique()):
        found.append(
            f"{names}: the data set told the levels, free of charge; --estimate-level charges them."
        )
    if (frame.runs > 1).any():
        found.append("±: standard deviation over runs (epochs).")
    if not frame.is_measured.all():
        found.append("Some tokens are estimated: the server reports none.")
    return found


def console() -> Console:
    """Return the standard output; wide where no terminal says how wide it is."""
    found = Console()
    return found if found.is_terminal else Console(width=_WIDE)


def plain_text(*shown: RenderableType) -> str:
    """Return what would be printed, one below the other."""
    file = io.StringIO()
    Console(file=file, width=console().width, force_jupyter=False).print(*shown, sep="\n")
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())
