"""Elements of inline SVG: shapes, text, scales, axes and intervals.

They take their colours from the page's style sheet, so one drawing serves light and dark, and they
need no script. A plotting library's SVG carries inline styles, which the page's policy forbids.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup, escape

from optim.report.formatting import number

Child: TypeAlias = "str | float | Iterable[Child] | None"
Ends: TypeAlias = tuple[float | None, float | None]

_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """Make an element; children are escaped unless they are markup, and None is left out.

    In an attribute's name ``_`` stands for ``-``, at its end for nothing.
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    end = "" if name == "wbr" else f"</{name}>"  # the one element here that never has content
    return Markup(f"<{name}{told}>{joined(*children)}{end}")  # noqa: S704 -- all of it is escaped


def joined(*children: Child) -> Markup:
    """Put children one after another."""
    pieces = (
        "" if child is None else escape(child) if isinstance(child, str | float | int)
        else joined(*child)
        for child in children
    )  # fmt: skip
    return Markup("").join(pieces)


def breakable(name: str) -> Markup:
    """A name that may go on in the next line after an underscore, a slash or a bracket."""
    return joined([piece, tag("wbr")] for piece in re.split(r"(?<=[_/\[])", name))


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

    def axes(
        self, x_title: str, y_title: str, x_ticks: Mapping[float, str] | None = None
    ) -> Iterator[Markup]:
        """Grid lines, tick labels and the titles of the axes; the x axis may have its own ticks."""
        if x_ticks is None:
            x_ticks = {value: _tick(value) for value in ticks(self.x.low, self.x.high)}
        for value, words in x_ticks.items():
            place = self.x(value)
            yield line(place, self.y.start, place, self.y.end, "grid")
            yield text(place, self.y.start + 17, words, "tick", "middle")
        for value in ticks(self.y.low, self.y.high):
            place = self.y(value)
            yield line(self.x.start, place, self.x.end, place, "grid")
            yield text(self.x.start - 7, place + 4, _tick(value), "tick", "end")
        middle = (self.x.start + self.x.end) / 2
        yield text(middle, self.y.start + 36, x_title, "title", "middle")
        yield text(2, self.y.end - 10, y_title, "title")


def whisker(
    scale: Scale, across: float, ends: Ends, *, upright: bool = False, class_: str = "whisker"
) -> Markup | None:
    """Draw an interval; an arrow stands where it goes on beyond the scale, or has no upper end."""
    low, high = ends
    if low is None:
        return None
    beyond = (low < scale.low, -1.0), (high is None or high > scale.high, 1.0)
    start, end = scale(low), scale(scale.high if high is None else high)
    side = math.copysign(1.0, scale.end - scale.start)
    drawn = [line(across, start, across, end, class_) if upright
             else line(start, across, end, across, class_)]  # fmt: skip
    for is_beyond, way in beyond:
        if is_beyond:
            place, out = (start, end)[way > 0], way * side
            tip, back = place + 4 * out, place - 3 * out
            corners = [(tip, across), (back, across - 4), (back, across + 4)]
            turned = [(b, a) for a, b in corners] if upright else corners
            drawn.append(tag("polygon", points=path(turned), class_="arrow"))
    return joined(drawn)


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
        "svg", *children, class_=f"chart {class_}".strip(), viewBox=f"0 0 {width} {height}",
        width=width, height=height, role="img" if label else None, aria_label=label or None,
        aria_hidden=None if label else "true", xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def polyline(places: Sequence[tuple[float, float]], class_: str) -> Markup:
    """A line through points."""
    return tag("polyline", points=path(places), class_=class_)


def text(x: float, y: float, words: str, class_: str, anchor: str = "start") -> Markup:
    """A line of text."""
    return tag("text", words, x=round(x, 1), y=round(y, 1), class_=class_, text_anchor=anchor)


def path(places: Iterable[tuple[float, float]]) -> str:
    """Points as an attribute holds them."""
    return " ".join(f"{x:g},{y:g}" for x, y in places)


def _tick(value: float) -> str:
    return number(value, 0 if value == int(value) else 1 if round(value, 1) == value else 2)
