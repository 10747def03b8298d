"""Small multiples, one panel for each method: score and tokens by level, and budget against use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from optim.report.markup import Markup, tag
from optim.report.svg import Frame, Scale, line, polyline, svg, text
from optim.report.wording import count, number

if TYPE_CHECKING:
    from optim.report.spending import Spent

__all__ = ["budget_panel", "level_panel"]

_WIDTH, _HEIGHT = 200, 96
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 8, 18, 18
_DOTS = 400  # dots drawn of one method, evenly chosen; more only make a blot

Series = Mapping[int, float | None]
"""A figure at each level; None where nothing has a score."""


def level_panel(title: str, ours: Series, other: Series | None, top: float, unit: str) -> Markup:
    """Draw a figure by level, over that of the baseline in grey."""
    levels = list(ours)
    x = Scale(levels[0] - 0.3, levels[-1] + 0.3, _LEFT, _WIDTH - _RIGHT)
    frame = Frame(x, Scale(0, top, _HEIGHT - _BOTTOM, _TOP))
    values = ", ".join(f"level {level}: {number(ours[level])}" for level in levels)
    return svg(
        _WIDTH,
        _HEIGHT,
        f"{title}, {unit} by level: {values}",
        text(_LEFT, 11, unit, "tick"),
        list(_edges(frame, top)),
        [text(x(level), _HEIGHT - 4, str(level), "tick", "middle") for level in levels],
        _trace(other, frame, "ghost") if other else None,
        _trace(ours, frame, "trace"),
        class_="panel",
    )


def budget_panel(title: str, found: Sequence[Spent], top: float, unit: str) -> Markup:
    """Draw tokens against budget, a dot for each step or question; the diagonal is the budget."""
    height = _WIDTH - 30
    x = Scale(0, top, _LEFT, _WIDTH - _RIGHT)
    frame = Frame(x, Scale(0, top, height - _BOTTOM, _TOP))
    over = sum(one.tokens > one.budget for one in found)
    note = f"{over} of {count(len(found), unit)} over budget"
    return svg(
        _WIDTH,
        height,
        f"{title}: tokens against budget; {note}",
        text(_LEFT, 11, "tokens used", "tick"),
        list(_edges(frame, top)),
        text(_WIDTH - _RIGHT, height - 4, f"budget, to {number(top)}", "tick", "end"),
        line(x(0), frame.y(0), x(top), frame.y(top), "diagonal"),
        [_dot(frame, one) for one in found[:: 1 + len(found) // _DOTS]],
        class_="panel",
    )


def _edges(frame: Frame, top: float) -> Iterator[Markup]:
    for value in (0.0, top / 2, top):
        place = frame.y(value)
        yield line(frame.x.start, place, frame.x.end, place, "grid")
        yield text(frame.x.start - 5, place + 4, number(value), "tick", "end")


def _trace(series: Series, frame: Frame, class_: str) -> Markup:
    """A line with dots; it breaks where a level has no figure."""
    runs: list[list[tuple[float, float]]] = [[]]
    for level, value in series.items():
        if value is None:
            runs.append([])
        else:
            runs[-1].append((frame.x(level), frame.y(value)))
    lines = [polyline(run, class_) for run in runs if len(run) > 1]
    dots = [
        tag("circle", cx=x, cy=y, r=2.6, class_=f"{class_}-dot") for run in runs for x, y in run
    ]
    return tag("g", lines, dots)


def _dot(frame: Frame, one: Spent) -> Markup:
    over = "dot over" if one.tokens > one.budget else "dot"
    return tag("circle", cx=frame.x(one.budget), cy=frame.y(one.tokens), r=2.8, class_=over)
