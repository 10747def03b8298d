"""Drawings that stand in rows: parts of the tokens, ratios, figures by level, budget and use."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from markupsafe import Markup

from optim.report.formatting import count, number
from optim.report.svg import Frame, Scale, joined, line, polyline, svg, tag, text, ticks, whisker
from optim.summary import PARTS

if TYPE_CHECKING:
    from optim.summary import BudgetUse

Series: TypeAlias = Mapping[int, tuple[float | None, float | None, float | None]]
"""A figure at each level, with the ends of its interval; None where nothing has a score."""

_ROW, _BAR = 26, 16
_WIDEST = 16.0  # a ratio beyond is shown by an arrow only
_WIDTH, _HEIGHT = 200, 96
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 8, 18, 18
_DOTS = 400  # dots drawn of one method, evenly chosen; more only make a blot


class RatioAxis:
    """The axis that all ratios of a table share: logarithmic, with 1 in the middle."""

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
        """One ratio with its interval; an arrow stands where the interval goes on beyond."""
        middle = line(self.scale(0), 0, self.scale(0), 22, "unity")
        if not ratio:
            return svg(self.width, 22, "no ratio", middle, class_="inline")
        ends = (
            None if lower is None else math.log2(lower) if lower > 0 else -math.inf,
            None if upper is None else math.log2(upper),
        )
        clear = lower is not None and (lower > 1 or (upper is not None and upper < 1))
        dot = tag(
            "circle", cx=self.scale(math.log2(ratio)), cy=11, r=4.5,
            class_="mark clear" if clear else "mark",
        )  # fmt: skip
        spread = whisker(self.scale, 11, ends, class_="whisker wide")
        label = f"ratio {number(ratio, 2)}"
        return svg(self.width, 22, label, middle, spread, dot, class_="inline")


def stacked(
    bars: Mapping[str, Mapping[str, float]],
    width: int,
    class_: str = "",
    *,
    title: str = "Mean completion tokens per query by part",
) -> Markup:
    """Draw a bar for each method, of its parts in tokens; the title is for those who see none."""
    longest = max((sum(parts.values()) for parts in bars.values()), default=0) or 1.0
    names = min(10 + 7 * max(map(len, bars), default=0), width // 2)
    scale = Scale(0, longest, names, width - 48)
    height = _ROW * len(bars) + 26
    marks = [
        [line(scale(value), 0, scale(value), height - 22, "grid"),
         text(scale(value), height - 6, number(value), "tick", "middle")]
        for value in ticks(0, longest, width // 110)
    ]  # fmt: skip
    sums = (f"{name} {number(sum(parts.values()))}" for name, parts in bars.items())
    label = f"{title}: {'; '.join(sums)}"
    rows = [_bar(name, bars[name], scale, 4 + _ROW * place) for place, name in enumerate(bars)]
    return svg(width, height, label, marks, rows, class_=class_)


def part_class(part: str) -> str:
    """The class that colours a part; parts that we do not know share one."""
    return f"p{list(PARTS).index(part)}" if part in PARTS else "p-other"


def level_panel(title: str, ours: Series, other: Series | None, top: float, unit: str) -> Markup:
    """Draw a figure by level with its intervals, over that of the baseline in grey."""
    levels = list(ours)
    x = Scale(levels[0] - 0.3, levels[-1] + 0.3, _LEFT, _WIDTH - _RIGHT)
    frame = Frame(x, Scale(0, top, _HEIGHT - _BOTTOM, _TOP))
    values = ", ".join(f"level {level}: {number(ours[level][0])}" for level in levels)
    return svg(
        _WIDTH,
        _HEIGHT,
        f"{title}, {unit} by level: {values}",
        text(_LEFT, 11, unit, "tick"),
        _edges(frame, top),
        [text(x(level), _HEIGHT - 4, str(level), "tick", "middle") for level in levels],
        _trace(other, frame, "ghost") if other else None,
        [whisker(frame.y, x(n), (low, high), upright=True) for n, (_, low, high) in ours.items()],
        _trace(ours, frame, "trace"),
        class_="panel",
    )


def budget_panel(title: str, found: Sequence[BudgetUse], top: float, unit: str) -> Markup:
    """Draw tokens against budget, a dot for each step or question; the diagonal is the budget."""
    height = _WIDTH - 30
    x = Scale(0, top, _LEFT, _WIDTH - _RIGHT)
    frame = Frame(x, Scale(0, top, height - _BOTTOM, _TOP))
    over = sum(one.tokens > one.budget for one in found)
    dots = [
        tag("circle", cx=x(one.budget), cy=frame.y(one.tokens), r=2.8,
            class_="dot over" if one.tokens > one.budget else "dot")
        for one in found[:: 1 + len(found) // _DOTS]
    ]  # fmt: skip
    return svg(
        _WIDTH,
        height,
        f"{title}: tokens against budget; {over} of {count(len(found), unit)} over budget",
        text(_LEFT, 11, "tokens used", "tick"),
        _edges(frame, top),
        text(_WIDTH - _RIGHT, height - 4, f"budget, to {number(top)}", "tick", "end"),
        line(x(0), frame.y(0), x(top), frame.y(top), "diagonal"),
        dots,
        class_="panel",
    )


def _bar(name: str, parts: Mapping[str, float], scale: Scale, top: float) -> Markup:
    pieces, done = [text(scale.start - 8, top + 12, name, "name", "end")], 0.0
    for part, tokens in parts.items():
        start, end = scale(done), scale(done + tokens)
        hint = tag("title", f"{name}: {PARTS.get(part, part)}, {number(tokens, 1)} tokens")
        pieces.append(
            tag("rect", hint, x=start, y=top, width=round(end - start, 1), height=_BAR,
                class_=f"part {part_class(part)}")
        )  # fmt: skip
        done += tokens
    return joined(pieces, text(scale(done) + 5, top + 12, number(done), "tick"))


def _edges(frame: Frame, top: float) -> Iterator[Markup]:
    for value in (0.0, top / 2, top):
        place = frame.y(value)
        yield line(frame.x.start, place, frame.x.end, place, "grid")
        yield text(frame.x.start - 5, place + 4, number(value), "tick", "end")


def _trace(series: Series, frame: Frame, class_: str) -> Markup:
    """A line with dots; it breaks where a level has no figure."""
    runs: list[list[tuple[float, float]]] = [[]]
    for level, (value, *_) in series.items():
        if value is None:
            runs.append([])
        else:
            runs[-1].append((frame.x(level), frame.y(value)))
    lines = [polyline(run, class_) for run in runs if len(run) > 1]
    dots = [
        tag("circle", cx=x, cy=y, r=2.6, class_=f"{class_}-dot") for run in runs for x, y in run
    ]
    return joined(lines, dots)
