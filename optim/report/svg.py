"""The little that our charts need of SVG: scales, round ticks, axes and text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optim.report.markup import Child, Markup, tag
from optim.report.wording import number

__all__ = ["Frame", "Scale", "line", "polyline", "svg", "text", "ticks"]

_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places in the drawing, linear; what lies outside stops at the edge."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


@dataclass(frozen=True, slots=True)
class Frame:
    """A plotting area within a drawing: two scales."""

    x: Scale
    y: Scale

    def axes(self, x_title: str, y_title: str, *, tick_count: int = 5) -> list[Markup]:
        """Grid lines, tick labels and the titles of the axes."""
        found = [self._x_tick(v) for v in ticks(self.x.low, self.x.high, tick_count)]
        found += [self._y_tick(v) for v in ticks(self.y.low, self.y.high, tick_count)]
        middle = (self.x.start + self.x.end) / 2
        found.append(text(middle, self.y.start + 36, x_title, "title", "middle"))
        found.append(text(2, self.y.end - 10, y_title, "title", "start"))
        return found

    def _x_tick(self, value: float) -> Markup:
        place = self.x(value)
        label = text(place, self.y.start + 17, number(value, _digits(value)), "tick", "middle")
        return tag("g", line(place, self.y.start, place, self.y.end, "grid"), label)

    def _y_tick(self, value: float) -> Markup:
        place = self.y(value)
        label = text(self.x.start - 7, place + 4, number(value, _digits(value)), "tick", "end")
        return tag("g", line(self.x.start, place, self.x.end, place, "grid"), label)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round values between two, about so many."""
    if not high > low:
        return [low]
    rough = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * power for unit in _ROUND if unit * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def svg(width: int, height: int, label: str, *children: Child, class_: str = "") -> Markup:
    """A drawing as wide as its column allows, up to its own width.

    The label says what it shows to those who do not see it; without one it is hidden from them.
    """
    return tag(
        "svg",
        *children,
        class_=f"chart {class_}".strip(),
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img" if label else None,
        aria_label=label or None,
        aria_hidden=None if label else "true",
        xmlns="http://www.w3.org/2000/svg",
    )


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def polyline(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """A line through points."""
    return tag("polyline", points=" ".join(f"{x:g},{y:g}" for x, y in points), class_=class_)


def text(x: float, y: float, words: str, class_: str, anchor: str = "start") -> Markup:
    """A line of text."""
    return tag("text", words, x=round(x, 1), y=round(y, 1), class_=class_, text_anchor=anchor)


def _digits(value: float) -> int:
    return 0 if value == int(value) else 1 if round(value, 1) == value else 2
