"""Bars and intervals that stand in a row: where tokens went, and ratios with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from optim.report.markup import Markup, tag
from optim.report.spending import PARTS
from optim.report.svg import Scale, line, svg, text, ticks
from optim.report.wording import number

__all__ = ["RatioAxis", "stacked"]

_ROW, _BAR = 26, 16
_WIDEST = 16.0  # a ratio beyond is shown by an arrow only


def stacked(bars: Mapping[str, Mapping[str, float]], width: int, class_: str = "") -> Markup:
    """Draw a bar for each method, of its parts in tokens."""
    longest = max((sum(parts.values()) for parts in bars.values()), default=0) or 1.0
    names = min(10 + 7 * max(map(len, bars), default=0), width // 2)
    scale = Scale(0, longest, names, width - 48)
    height = _ROW * len(bars) + 26
    marks = [_tick(scale, value, height - 22) for value in ticks(0, longest, width // 110)]
    rows = [
        _bar(name, parts, scale, 4 + _ROW * place)
        for place, (name, parts) in enumerate(bars.items())
    ]
    label = "Mean completion tokens per query by part: " + "; ".join(
        f"{name} {number(sum(parts.values()))}" for name, parts in bars.items()
    )
    return svg(width, height, label, marks, rows, class_=class_)


class RatioAxis:
    """The axis that all ratios of a table share: logarithmic, with 1 in the middle.

    Args:
        ends: Lower and upper ends of all intervals, and the ratios themselves.
        width: Of the drawing.
    """

    def __init__(self, ends: Sequence[float], width: int = 190) -> None:
        reach = max((abs(math.log2(end)) for end in ends if end > 0), default=1.0)
        self.reach = min(max(reach * 1.05, 1.0), math.log2(_WIDEST))
        self.width = width
        self.scale = Scale(-self.reach, self.reach, 8, width - 8)

    def header(self) -> Markup:
        """The ticks, for the head of the column."""
        steps = 2 if self.reach > 2 else 1  # noqa: PLR2004 -- at most five labels
        powers = range(-int(self.reach) // steps * steps, int(self.reach) + 1, steps)
        labels = [
            text(self.scale(p), 11, f"{2**p}\N{MULTIPLICATION SIGN}" if p >= 0 else f"1/{2**-p}",
                 "tick", "middle")
            for p in powers
            if abs(p) <= self.reach
        ]  # fmt: skip
        return svg(self.width, 15, "axis of the ratios, logarithmic", labels, class_="inline")

    def draw(self, ratio: float | None, lower: float | None, upper: float | None) -> Markup:
        """One ratio with its interval."""
        middle = line(self.scale(0), 0, self.scale(0), 22, "unity")
        if not ratio:
            return svg(self.width, 22, "no ratio", middle, class_="inline")
        spread = None
        if lower is not None:
            high = self.reach if upper is None else self._log(upper)
            spread = line(self.scale(self._log(lower)), 11, self.scale(high), 11, "whisker wide")
        clear = lower is not None and (lower > 1 or (upper is not None and upper < 1))
        dot = tag(
            "circle", cx=self.scale(self._log(ratio)), cy=11, r=4.5,
            class_="mark clear" if clear else "mark",
        )  # fmt: skip
        label = f"ratio {number(ratio, 2)}"
        return svg(self.width, 22, label, middle, spread, dot, class_="inline")

    def _log(self, value: float) -> float:
        return math.log2(value) if value > 0 else -self.reach


def _tick(scale: Scale, value: float, bottom: float) -> Markup:
    place = scale(value)
    label = text(place, bottom + 16, number(value), "tick", "middle")
    return tag("g", line(place, 0, place, bottom, "grid"), label)


def _bar(name: str, parts: Mapping[str, float], scale: Scale, top: float) -> Markup:
    pieces, done = [], 0.0
    for part, tokens in parts.items():
        start, end = scale(done), scale(done + tokens)
        hint = tag("title", f"{name}: {PARTS.get(part, part)}, {number(tokens, 1)} tokens")
        pieces.append(
            tag("rect", hint, x=start, y=top, width=round(end - start, 1), height=_BAR,
                class_=f"part {part_class(part)}")
        )  # fmt: skip
        done += tokens
    total = text(scale(done) + 5, top + 12, number(done), "tick")
    return tag("g", text(scale.start - 8, top + 12, name, "name", "end"), pieces, total)


def part_class(part: str) -> str:
    """The class that colours a part; parts that we do not know share one."""
    return f"p{list(PARTS).index(part)}" if part in PARTS else "p-other"
