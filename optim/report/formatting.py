"""How numbers and names are written in a report."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

NOTHING = "\N{EN DASH}"
_SMALLEST_P = 0.001
_HUGE = 10_000.0
_SUREST = 0.99


def number(value: float | None, digits: int = 0) -> str:
    """A number with so many decimals, or a dash for None."""
    if value is None:
        return NOTHING
    return f"{value:,.{digits}f}".replace(",", "\N{NARROW NO-BREAK SPACE}").replace(
        "-", "\N{MINUS SIGN}"
    )


def factor(value: float | None) -> str:
    """A positive figure that may lie anywhere from 0.01 to a billion, to three digits."""
    if value is None:
        return NOTHING
    if value >= _HUGE:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return number(value, 0 if value >= 100 else 1 if value >= 10 else 2)  # noqa: PLR2004


def span(lower: float | None, upper: float | None) -> str:
    """An interval; open above where the upper end is beyond all numbers."""
    if lower is None:
        return NOTHING
    end = "\N{INFINITY}" if upper is None else factor(upper)
    return f"{factor(lower)}\N{NO-BREAK SPACE}\N{EN DASH}\N{NO-BREAK SPACE}{end}"


def ends(lower: float | None, upper: float | None, digits: int = 1) -> str:
    """An interval as tables of plain figures have it."""
    shown = (NOTHING if end is None else f"{end:.{digits}f}" for end in (lower, upper))
    return NOTHING if lower is None else f" {NOTHING} ".join(shown)


def percent(value: float | None) -> str:
    """A percentage with its sign."""
    return NOTHING if value is None else f"{number(value)}\N{NARROW NO-BREAK SPACE}%"


def certainty(share: float) -> str:
    """A confidence from 0 to 1 in whole percent, rounded down; nothing is ever 100 % sure."""
    return "> 99 %" if share > _SUREST else f"{math.floor(100 * share)} %"


def p_value(value: float | None) -> str:
    """A p-value to three decimals, and no smaller than that."""
    if value is None:
        return NOTHING
    return f"< {_SMALLEST_P}" if value < _SMALLEST_P else f"{value:.3f}"


def count(amount: int, noun: str) -> str:
    """``1 answer``, ``2 answers``."""
    return f"{number(amount)} {noun}{'' if amount == 1 else 's'}"


def setting(value: object) -> str:
    """The value of a setting, as plain JSON holds it: a budget rule in a few words."""
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
    """Several settings in a line."""
    return ", ".join(f"{name}={setting(value)}" for name, value in changes.items())


def lines_of(settings: Mapping[str, object]) -> str:
    """Settings in full, a line each."""
    return "\n".join(f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in settings.items())


def shortened(text: str, limit: int) -> tuple[str, int]:
    """Keep the beginning and the end, where results stand; give also how much was left out."""
    left_out = len(text) - limit
    if left_out <= 0:
        return text, 0
    head = limit * 2 // 3
    dots = "\N{HORIZONTAL ELLIPSIS}"
    gap = f"\n{dots} {count(left_out, 'character')} left out {dots}\n"
    return text[:head] + gap + text[len(text) - (limit - head) :], left_out
