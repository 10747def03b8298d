"""Score against tokens, drawn with intervals, lines of equal E³ and the Pareto front."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from importlib.resources import files
from typing import TYPE_CHECKING, TypeAlias

from markupsafe import Markup

from optim.report.formatting import factor, number, span
from optim.report.groups import studies
from optim.report.svg import Ends, Frame, Scale, joined, line, polyline, svg, tag, text, whisker
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.records import Record
    from optim.report.groups import Study

KINDS = ("no plan", "a plan, one budget", "plan and budget, one pass", "plan and budget, stepwise")
"""Kinds of methods: each has a colour and a shape of its own."""
EARLY, ORIGINAL = 4, 5
"""Two more, of a tuning's candidates: given up early, and the one to be improved on."""

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom."""

_LETTER, _LINE = 6.6, 14.0  # width of a label's letter, its height
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 22.0, 30.0, 46.0  # margins of the scatter
_CONTOURS = 4


@dataclass(frozen=True, slots=True)
class Point:
    """A method's place among the others; intervals are None where there are none.

    One that is not ``named`` has its name where one points at it only; one that is not ``ranked``
    has no part in the front.
    """

    name: str
    kind: int
    tokens: float
    score: float
    e3: float
    token_ends: Ends
    score_ends: Ends
    named: bool = True
    ranked: bool = True

    def __str__(self) -> str:
        """What a reader sees who points at it."""
        score, cost = (
            "" if ends[0] is None else f" ({span(*ends)})"
            for ends in (self.score_ends, self.token_ends)
        )
        return (
            f"{self.name}: score {number(self.score, 1)} %{score}, T {number(self.tokens)}{cost}, "
            f"E³ {factor(self.e3)}"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Figure:
    """A drawing that a notebook shows by itself; printed, it says what it shows."""

    svg: Markup

    def __repr__(self) -> str:
        label = re.search(r'aria-label="([^"]*)"', self.svg)
        return f"<Figure: {unescape(label[1]) if label else 'without a label'}>"

    def _repr_svg_(self) -> str:
        style = files("optim.report").joinpath("charts.css").read_text(encoding="utf-8")
        opening, rest = str(self.svg).split(">", 1)
        opening = opening.replace('class="chart', 'class="pb chart')
        return f"{opening}><style>{style.replace('.pb .chart', '.pb.chart')}</style>{rest}"


def plot(records: Sequence[Record]) -> Figure:
    """Draw score against tokens with 95 % intervals and the Pareto front.

    Args:
        records: Answers of one data set with one solver and one planner.

    Raises:
        InputError: No scored answer, or records of several data sets, solvers or planners.
    """
    found = studies(records)
    if len(found) > 1:
        names = "; ".join(f"{one.dataset}, {one.model}, {one.planner}" for one in found)
        msg = f"one chart shows one data set, solver and planner, not these: {names}"
        raise InputError(msg)
    drawn = points(found[0])
    if not drawn:
        msg = "no answer has a score yet, so there is nothing to draw"
        raise InputError(msg)
    return Figure(scatter(drawn, 760, 440))


def kind_of(record: Record) -> int:
    """Which of `KINDS` a method is, by what its graph did."""
    report = record.report
    if report["method"] == "plan_and_budget":
        return 2 if report["execution"] == "single_pass" else 3
    return int(report["method"].startswith("planned"))


def points(study: Study) -> list[Point]:
    """The methods that have a score and spent tokens."""
    return [
        Point(
            name=row.method,
            kind=kind_of(study.of(row.method)[0]),
            tokens=row.tokens,
            score=row.accuracy,
            e3=row.e3,
            token_ends=(row.tokens_lower, row.tokens_upper),
            score_ends=(row.accuracy_lower or 0.0, row.accuracy_upper or 0.0),
        )
        for row in study.rows
        if row.accuracy is not None and row.tokens is not None and row.e3 is not None
    ]


def front(found: Sequence[Point]) -> list[Point]:
    """Points that no other beats in one of score and tokens without losing in the other."""
    kept: list[Point] = []
    for point in sorted(found, key=lambda p: (p.tokens, -p.score)):
        if not kept or point.score > kept[-1].score:
            kept.append(point)
    return kept


def scatter(found: Sequence[Point], width: int, height: int, class_: str = "") -> Markup:
    """Draw the points; an interval that goes on beyond the frame ends in an arrow."""
    frame = _frame(found, width, height)
    steps: list[tuple[float, float]] = []
    for point in front([point for point in found if point.ranked]):
        x, y = frame.x(point.tokens), frame.y(point.score)
        steps += [(x, steps[-1][1]), (x, y)] if steps else [(x, y)]
    label = "Score in percent against completion tokens per query. "
    label += "; ".join(str(point) for point in found if point.named)
    return svg(
        width,
        height,
        label,
        frame.axes("T: completion tokens per query, planning included", "score, %"),
        _contours(found, frame),
        polyline(steps, "front") if len(steps) > 1 else None,
        [
            tag(
                "g",
                whisker(frame.x, frame.y(p.score), p.token_ends),
                whisker(frame.y, frame.x(p.tokens), p.score_ends, upright=True),
                class_=f"k{p.kind}",
            )
            for p in found
        ],
        [marker(p.kind, frame.x(p.tokens), frame.y(p.score), str(p)) for p in found],
        _labels(found, frame),
        class_=class_,
    )


def scatters(found: Sequence[Point]) -> list[Markup]:
    """The drawing twice: wide and narrow, of which a page shows the one that fits."""
    return [scatter(found, 640, 440, "broad"), scatter(found, 350, 430, "slim")]


def marker(
    kind: int, x: float, y: float, title: str | None = None, size: float | None = None
) -> Markup:
    """Draw the shape of a kind: those of `KINDS`, then `EARLY` and `ORIGINAL`, both hollow."""
    size = size or (9.0 if kind == ORIGINAL else 5.5)
    corners = {
        1: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        2: ((0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)),
        3: ((0, -1.3), (1.25, 1), (-1.25, 1)),
        ORIGINAL: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    }
    hint = tag("title", title) if title else None
    if kind not in corners:
        return tag("circle", hint, cx=x, cy=y, r=size, class_=f"mark k{kind}")
    place = " ".join(f"{x + dx * size:.1f},{y + dy * size:.1f}" for dx, dy in corners[kind])
    return tag("polygon", hint, points=place, class_=f"mark k{kind}")


def key(kind: int, size: int = 14) -> Markup:
    """The shape of a kind, as it stands beside its name."""
    return svg(size, size, "", marker(kind, size // 2, size // 2), class_="key")


def contour_values(figures: Sequence[float]) -> list[float]:
    """A few round values of E³ around those that were measured."""
    positive = [figure for figure in figures if figure > 0]
    if not positive:
        return []
    low, high = 0.6 * min(positive), 1.6 * max(positive)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [unit * 10.0**power for power in powers for unit in (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)]
    values = [value for value in values if low <= value <= high]
    return values[:: math.ceil(len(values) / _CONTOURS)] if values else []


def _frame(found: Sequence[Point], width: int, height: int) -> Frame:
    tokens, scores = [p.tokens for p in found], [p.score for p in found]
    cheap, dear = min(tokens), max(tokens)
    room = max(dear - cheap, 0.3 * dear)
    # Intervals of a few questions reach far; they must not press the points into a corner.
    low = max(min([cheap, *(p.token_ends[0] or cheap for p in found)]), cheap - room, 0.0)
    high = min(max([dear, *(p.token_ends[1] or dear for p in found)]), dear + room)
    low, high = min(low, cheap - room / 10), max(high, dear + room / 10)
    pad = 0.04 * (high - low)
    scores += [end for p in found for end in p.score_ends if end is not None]
    return framed((max(0.0, low - pad), high + pad), scores, width, height)


def framed(x: tuple[float, float], scores: Sequence[float], width: int, height: int) -> Frame:
    """The area of a drawing of scores in percent, with room for its axes."""
    floor, ceiling = max(0.0, min(scores) - 4), min(100.0, max(scores) + 4)
    upright = Scale(floor, max(ceiling, floor + 10), height - _BOTTOM, _TOP)
    return Frame(Scale(*x, _LEFT, width - _RIGHT), upright)


def _contours(found: Sequence[Point], frame: Frame) -> Iterator[Markup]:
    """Lines of equal E³: a method on a higher one is better."""
    for value in contour_values([point.e3 for point in found]):
        places = []
        for i in range(49):
            tokens = frame.x.low + (frame.x.high - frame.x.low) * i / 48
            score = math.sqrt(value * tokens)
            if frame.y.low <= score <= frame.y.high:
                places.append((frame.x(tokens), frame.y(score)))
        if len(places) > 5:  # noqa: PLR2004 -- a stub of a line says nothing
            x, y = places[-1]
            name = f"E³ = {value:g}"
            yield joined(polyline(places, "contour"), text(x - 3, y + 13, name, "fine", "end"))


def _labels(found: Sequence[Point], frame: Frame) -> Iterator[Markup]:
    """Write the names where they cover neither each other nor a point; with a line if far away."""
    spots = [(frame.x(point.tokens), frame.y(point.score)) for point in found]
    taken: list[Box] = [(x - 7, y - 7, x + 7, y + 7) for x, y in spots]
    for point in sorted((p for p in found if p.named), key=lambda p: -p.score):
        x, y = frame.x(point.tokens), frame.y(point.score)
        box, far = _place(x, y, _LETTER * len(point.name), taken, frame)
        taken.append(box)
        middle = (box[1] + box[3]) / 2
        if far:
            edge = box[0] - 2 if box[0] > x else box[2] + 2 if box[2] < x else (box[0] + box[2]) / 2
            yield line(x, y, edge, middle, "leader")
        yield text(box[0], middle + 4, point.name, "name")


def _place(
    x: float, y: float, width: float, taken: Sequence[Box], frame: Frame
) -> tuple[Box, bool]:
    """The nearest free place for a name, else the nearest within the frame."""
    near = list(_candidates(x, y, width))
    inside = [
        (box, far)
        for box, far in near
        if box[0] >= frame.x.start
        and box[2] <= frame.x.end + _RIGHT
        and box[1] >= frame.y.end - _LINE
        and box[3] <= frame.y.start
    ]
    free = (
        (box, far)
        for box, far in inside
        if not any(
            box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken
        )
    )
    return next(free, [*inside, *near][0])


def _candidates(x: float, y: float, width: float) -> Iterator[tuple[Box, bool]]:
    for distance in (10.0, 16.0, 24.0, 34.0, 46.0, 60.0, 78.0, 98.0):
        for dx, dy in ((1, 0), (0, -1), (0, 1), (-1, 0), (1, -1), (1, 1), (-1, -1), (-1, 1)):
            left = x + dx * distance - (width if dx < 0 else 0 if dx else width / 2)
            middle = y + dy * (distance + 3)
            far = distance > 16 or bool(dx and dy and distance > 10)  # noqa: PLR2004
            if far and not (dx and dy):
                continue  # the line to the name would lie on an interval
            yield (left, middle - _LINE / 2, left + width, middle + _LINE / 2), far
