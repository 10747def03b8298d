"""Score against tokens: intervals, lines of equal E³, and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.report.markup import Markup, tag
from optim.report.spending import score_ends, token_ends
from optim.report.svg import Frame, Scale, line, polyline, svg, text
from optim.report.wording import factor, number

if TYPE_CHECKING:
    from optim.records import Record
    from optim.report.studies import Study

__all__ = [
    "KINDS",
    "Point",
    "contour_values",
    "front",
    "kind_of",
    "marker",
    "points",
    "scatter",
]

KINDS = ("no plan", "a plan, one budget", "plan and budget, one pass", "plan and budget, stepwise")
"""Kinds of methods: each has a colour and a shape of its own."""

_LETTER = 6.6  # width of a label's letter
_LINE = 14.0  # its height
_MARGINS = (52.0, 22.0, 30.0, 46.0)  # left, right, top, bottom
_CONTOURS = 4


@dataclass(frozen=True, slots=True)
class Point:
    """A method's place among the others; intervals are None where there are none."""

    name: str
    kind: int
    tokens: float
    score: float
    e3: float
    token_ends: tuple[float | None, float | None]
    score_ends: tuple[float, float]

    def __str__(self) -> str:
        """What a reader sees who points at it."""
        ends = "\N{EN DASH}".join(number(end) for end in self.score_ends)
        cost = "\N{EN DASH}".join(number(end) for end in self.token_ends if end is not None)
        cost = f" ({cost})" if cost else ""
        return (
            f"{self.name}: score {number(self.score, 1)} % ({ends}), "
            f"T {number(self.tokens)}{cost}, E³ {factor(self.e3)}"
        )


def kind_of(record: Record) -> int:
    """Which of `KINDS` a method is, by what its graph did."""
    report = record.report
    if report["method"] == "plan_and_budget":
        return 3 if report["execution"] == "stepwise" else 2
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
            token_ends=token_ends(_scored(study, row.method)),
            score_ends=score_ends(_scored(study, row.method)),
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


def scatter(  # noqa: PLR0913 -- all but four by name
    found: Sequence[Point],
    width: int,
    height: int,
    class_: str = "",
    *,
    named: Collection[str] | None = None,
    aside: Sequence[Point] = (),
) -> Markup:
    """Draw the points; nothing is drawn of what lies beyond the frame.

    Args:
        found: What to draw.
        width: Of the drawing.
        height: Of the drawing.
        class_: Of the drawing.
        named: Points with a name and intervals, of many; None for all.
        aside: Points that have no part in the front, and no name.
    """
    every = [*aside, *found]
    chosen = [point for point in found if named is None or point.name in named]
    frame = _frame(every, width, height)
    label = "Score in percent against completion tokens per query. " + "; ".join(map(str, chosen))
    return svg(
        width,
        height,
        label,
        frame.axes("T: completion tokens per query, planning included", "score, %"),
        list(_contours(every, frame)),
        _front(found, frame),
        [_whiskers(point, frame) for point in chosen],
        [marker(p.kind, frame.x(p.tokens), frame.y(p.score), str(p)) for p in every],
        list(_labels(chosen, every, frame)),
        class_=class_,
    )


def marker(kind: int, x: float, y: float, title: str | None = None, size: float = 5.5) -> Markup:
    """Draw the shape of a kind of method."""
    corners = {
        1: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        2: ((0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)),
        3: ((0, -1.3), (1.25, 1), (-1.25, 1)),
    }
    hint = tag("title", title) if title else None
    if kind not in corners:
        return tag("circle", hint, cx=x, cy=y, r=size, class_=f"mark k{kind}")
    place = " ".join(f"{x + dx * size:.1f},{y + dy * size:.1f}" for dx, dy in corners[kind])
    return tag("polygon", hint, points=place, class_=f"mark k{kind}")


def _scored(study: Study, method: str) -> list[Record]:
    return [record for record in study.of(method) if record.score is not None]


def _frame(found: Sequence[Point], width: int, height: int) -> Frame:
    left, right, top, bottom = _MARGINS
    tokens, scores = [p.tokens for p in found], [p.score for p in found]
    cheap, dear = min(tokens), max(tokens)
    room = max(dear - cheap, 0.3 * dear)
    # Intervals of a few questions reach far; they must not press the points into a corner.
    low = max(min([cheap, *(p.token_ends[0] or cheap for p in found)]), cheap - room, 0.0)
    high = min(max([dear, *(p.token_ends[1] or dear for p in found)]), dear + room)
    low, high = min(low, cheap - room / 10), max(high, dear + room / 10)
    pad = 0.04 * (high - low)
    floor = max(0.0, min([*scores, *(p.score_ends[0] for p in found)]) - 4)
    ceiling = min(100.0, max([*scores, *(p.score_ends[1] for p in found)]) + 4)
    x = Scale(max(0.0, low - pad), high + pad, left, width - right)
    return Frame(x, Scale(floor, max(ceiling, floor + 10), height - bottom, top))


def _contours(found: Sequence[Point], frame: Frame) -> Iterator[Markup]:
    """Lines of equal E³: a method on a higher one is better."""
    for value in contour_values([point.e3 for point in found]):
        path = []
        for i in range(49):
            tokens = frame.x.low + (frame.x.high - frame.x.low) * i / 48
            score = math.sqrt(value * tokens)
            if frame.y.low <= score <= frame.y.high:
                path.append((frame.x(tokens), frame.y(score)))
        if len(path) > 5:  # noqa: PLR2004 -- a stub of a line says nothing
            x, y = path[-1]
            yield polyline(path, "contour")
            yield text(
                x - 3, y + 13, f"E³ = {number(value, 0 if value >= 1 else 1)}", "fine", "end"
            )


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


def _front(found: Sequence[Point], frame: Frame) -> Markup | None:
    steps: list[tuple[float, float]] = []
    for point in front(found):
        x, y = frame.x(point.tokens), frame.y(point.score)
        steps += [(x, steps[-1][1]), (x, y)] if steps else [(x, y)]
    return polyline(steps, "front") if len(steps) > 1 else None


def _whiskers(point: Point, frame: Frame) -> Markup:
    x, y = frame.x(point.tokens), frame.y(point.score)
    low, high = point.token_ends
    bottom, top = (frame.y(end) for end in point.score_ends)
    wide = None
    if low is not None:
        end = frame.x.end if high is None else frame.x(high)
        wide = line(frame.x(low), y, end, y, "whisker")
    return tag("g", wide, line(x, bottom, x, top, "whisker"), class_=f"k{point.kind}")


Box = tuple[float, float, float, float]


def _labels(found: Sequence[Point], every: Sequence[Point], frame: Frame) -> Iterator[Markup]:
    """Write the names where they cover neither each other nor a point; with a line if far away."""
    taken: list[Box] = []
    places = [(frame.x(point.tokens), frame.y(point.score)) for point in found]
    spots = [(frame.x(point.tokens), frame.y(point.score)) for point in every]
    marks = [(x - 7, y - 7, x + 7, y + 7) for x, y in spots]
    for point, (x, y) in sorted(zip(found, places, strict=True), key=lambda pair: pair[1][1]):
        box, far = _place(x, y, _LETTER * len(point.name), [*taken, *marks], frame)
        taken.append(box)
        middle = (box[1] + box[3]) / 2
        if far:
            edge = box[0] - 2 if box[0] > x else box[2] + 2 if box[2] < x else (box[0] + box[2]) / 2
            yield line(x, y, edge, middle, "leader")
        yield text(box[0], middle + 4, point.name, "name")


def _place(
    x: float, y: float, width: float, taken: Sequence[Box], frame: Frame
) -> tuple[Box, bool]:
    candidates = list(_candidates(x, y, width))
    for box, far in candidates:
        if _inside(box, frame) and not any(_overlap(box, other) for other in taken):
            return box, far
    return next(((b, far) for b, far in candidates if _inside(b, frame)), candidates[0])


def _candidates(x: float, y: float, width: float) -> Iterable[tuple[Box, bool]]:
    for distance in (10.0, 16.0, 24.0, 34.0, 46.0, 60.0, 78.0, 98.0):
        for dx, dy in ((1, 0), (0, -1), (0, 1), (-1, 0), (1, -1), (1, 1), (-1, -1), (-1, 1)):
            left = x + dx * distance - (width if dx < 0 else 0 if dx else width / 2)
            middle = y + dy * (distance + 3)
            far = distance > 16 or bool(dx and dy and distance > 10)  # noqa: PLR2004
            if far and not (dx and dy):
                continue  # the line to the name would lie on an interval
            yield (left, middle - _LINE / 2, left + width, middle + _LINE / 2), far


def _inside(box: Box, frame: Frame) -> bool:
    return (
        box[0] >= frame.x.start
        and box[2] <= frame.x.end + _MARGINS[1]
        and box[1] >= frame.y.end - _LINE
        and box[3] <= frame.y.start
    )


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
