"""The candidates of a tuning on the accuracy-token plane: a page without script, and a PNG."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from optim.report.figures import (
    Child,
    Point,
    breakable,
    contour_values,
    front,
    joined,
    marker,
    scatter,
    svg,
    tag,
)
from optim.report.formatting import NOTHING, factor, number, percent, settings, span
from optim.report.page import document
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pb_graph.artefact import Candidate, Figure, Measured, Tuning

__all__ = ["by_rank", "html", "png", "write"]

PAGE, PICTURE = "candidates.html", "candidates.png"
_OTHER, _REFERENCE, _ORIGINAL, _CHOSEN, _GIVEN_UP = range(5)
_KIND = {"other": _OTHER, "reference": _REFERENCE, "original": _ORIGINAL, "chosen": _CHOSEN}
_SHAPES = ("o", "s", "D", "^", "o")
_COLOURS = ("#6a7178", "#a2661a", "#1f5fa8", "#7b3fa0", "#6a7178")
_INK, _QUIET = "#22262b", "#5d6670"
_DPI = 150


def write(tuning: Tuning, folder: Path) -> tuple[Path, Path]:
    """Write the page and the picture; give their paths.

    Raises:
        InputError: There is no candidate to show, or the folder cannot be written to.
    """
    page, picture = folder / PAGE, folder / PICTURE
    try:
        page.write_text(html(tuning), encoding="utf-8")
        picture.write_bytes(png(tuning))
    except OSError as error:
        msg = f"cannot write to {folder}: {error.strerror}"
        raise InputError(msg) from error
    return page, picture


def html(tuning: Tuning) -> str:
    """A page that holds everything: the verdict, the plane, and every candidate.

    Text of models is escaped, and the page's policy forbids any script.

    Raises:
        InputError: There is no candidate to show.
    """
    title = f"Tuning on {tuning.data.name}"
    return document(title, joined(_content(title, tuning)))


def png(tuning: Tuning) -> bytes:
    """The plane as a picture.

    Raises:
        InputError: There is no candidate to show.
    """
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415 -- takes a second

    found, aside = _points(tuning)
    canvas = Canvas(figsize=(8, 5), dpi=_DPI, layout="constrained")
    axes = canvas.add_subplot()
    _draw(axes, found, aside, _kinds(tuning))
    canvas.legend(loc="outside lower center", ncols=len(_SHAPES), frameon=False)
    axes.set_title(f"{tuning.data.name}: {_verdict(tuning)}", parse_math=False, loc="left")
    file = io.BytesIO()
    canvas.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def by_rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The highest E³ first; those that were asked fewer questions come after the others."""
    whole = max((one.questions for one in candidates), default=0)
    return sorted(candidates, key=lambda one: (one.questions < whole, -one.e3))


def _points(tuning: Tuning) -> tuple[list[Point], list[Point]]:
    """Candidates that met all of dev, and those that were given up before."""
    if not tuning.candidates:
        msg = "the tuning holds no candidate to show; keep some in the artefact"
        raise InputError(msg)
    whole = tuning.dev.before.questions
    found, aside = [], []
    for one in tuning.candidates:
        if one.questions < whole:
            aside.append(_point(one, _GIVEN_UP, None))
        else:
            ends = {"original": tuning.dev.before, "chosen": tuning.dev.after}
            found.append(_point(one, _KIND[one.role], ends.get(one.role)))
    return found, aside


def _point(one: Candidate, kind: int, measured: Measured | None) -> Point:
    return Point(
        name=one.name,
        kind=kind,
        tokens=one.tokens,
        score=one.accuracy,
        e3=one.e3,
        token_ends=_ends(measured.tokens) if measured else (None, None),
        score_ends=_score_ends(measured.accuracy) if measured else (one.accuracy, one.accuracy),
    )


def _ends(figure: Figure) -> tuple[float | None, float | None]:
    return figure.lower, figure.upper


def _score_ends(figure: Figure) -> tuple[float, float]:
    low, high = _ends(figure)
    return figure.value if low is None else low, figure.value if high is None else high


def _kinds(tuning: Tuning) -> tuple[str, ...]:
    chosen = "adopted" if tuning.verdict == "adopted" else "best on dev, not adopted"
    return ("candidate", "without a plan", "original", chosen, "given up early")


def _verdict(tuning: Tuning) -> str:
    adopted = tuning.verdict == "adopted"
    return "tuned program adopted" if adopted else "original kept"


def _content(title: str, tuning: Tuning) -> Iterator[Child]:
    found, aside = _points(tuning)
    yield tag("header", tag("h1", title), tag("p", _summary(tuning), class_="quiet"))
    yield _facts(tuning)
    yield tag("h3", "Before and after")
    yield _splits(tuning)
    yield tag("h3", "Score against tokens, on the dev questions")
    yield _figure(tuning, found, aside)
    yield tag("h3", "Candidates")
    yield _table(tuning)
    yield list(_texts(tuning))


def _summary(tuning: Tuning) -> str:
    verdict = _verdict(tuning)
    return f"{verdict[0].upper()}{verdict[1:]}. {tuning.reason}"


def _facts(tuning: Tuning) -> Markup:
    cost = tuning.cost
    facts = {
        "optimizer": tuning.optimizer,
        "solver": tuning.models.solver,
        "planner": tuning.models.planner,
        "reflection": tuning.models.reflection or NOTHING,
        "answers": number(cost.metric_calls),
        "completion tokens": number(cost.tokens),
        "minutes": number(cost.seconds / 60, 1),
        "date": f"{tuning.date:%Y-%m-%d}",
    }
    return tag("dl", [tag("div", tag("dt", name), tag("dd", fact)) for name, fact in facts.items()])


def _splits(tuning: Tuning) -> Markup:
    heads = ["questions", "program", "n", "score, %", "T", "E³", "95 % interval", "ratio of E³"]
    rows = []
    for name, split in (("dev", tuning.dev), ("held out", tuning.held_out)):
        if split is None:
            continue
        rows.append(_measured(name, "original", split.before, NOTHING))
        if split.paired is not None:
            ends = span(split.paired.lower, split.paired.upper)
            ratio = f"{factor(split.paired.ratio)} ({ends})"
            rows.append(_measured(name, _kinds(tuning)[_CHOSEN], split.after, ratio))
    return _grid("Before and after", heads, rows)


def _measured(split: str, program: str, found: Measured, ratio: str) -> list[Child]:
    return [
        split,
        program,
        number(found.questions),
        number(found.accuracy.value, 1),
        number(found.tokens.value),
        factor(found.e3.value),
        span(*_ends(found.e3)),
        ratio,
    ]


def _figure(tuning: Tuning, found: Sequence[Point], aside: Sequence[Point]) -> Markup:
    named = {point.name for point in found if point.kind != _OTHER}
    drawn = [
        scatter(found, width, height, class_, named=named, aside=aside)
        for width, height, class_ in ((760, 440, "broad"), (350, 430, "slim"))
    ]
    present = {point.kind for point in [*found, *aside]}
    keys = [
        tag("li", svg(14, 14, "", marker(kind, 7, 7), class_="key"), name)
        for kind, name in enumerate(_kinds(tuning))
        if kind in present
    ]
    caption = (
        "Up and to the left is better. Dotted lines join equal E³; the solid line is the Pareto "
        "front; bars are 95 % intervals. A candidate that was given up early stands where the "
        "questions it was asked have put it, and has no part in the front."
    )
    return tag("figure", drawn, tag("ul", keys, class_="keys"), tag("figcaption", caption))


def _table(tuning: Tuning) -> Markup:
    heads = ["candidate", "n", "score, %", "T", "E³", "other settings"]
    rows = [_row(one) for one in by_rank(tuning.candidates)]
    note = f"{number(tuning.left_out)} more are left out." if tuning.left_out else None
    return joined(_grid("Candidates", heads, rows), tag("p", note) if note else None)


def _row(one: Candidate) -> list[Child]:
    role = (
        tag("span", f" {one.role}", class_="quiet") if one.role not in {"other", one.name} else ""
    )
    return [
        joined(breakable(one.name), role),
        number(one.questions),
        number(one.accuracy, 1),
        number(one.tokens),
        factor(one.e3),
        tag("td", settings(one.settings), class_="note"),
    ]


def _texts(tuning: Tuning) -> Iterator[Markup]:
    """The instruction of every candidate that has one of its own."""
    for one in by_rank(tuning.candidates):
        for predictor, text in one.instructions.items():
            head = f"{one.name}, {predictor}: E³ {factor(one.e3)}, {percent(one.accuracy, 1)}"
            yield tag("details", tag("summary", head), tag("pre", text))


def _grid(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Child]]) -> Markup:
    head = tag("tr", [tag("th", name, scope="col") for name in heads])
    body = [
        tag("tr", tag("th", first, scope="row"), [_cell(cell) for cell in others])
        for first, *others in rows
    ]
    hidden = tag("caption", caption, class_="unseen")
    table = tag("table", hidden, tag("thead", head), tag("tbody", body))
    return tag("div", table, class_="wide", role="region", aria_label=caption, tabindex="0")


def _cell(content: Child) -> Child:
    is_cell = isinstance(content, Markup) and content.startswith("<td")
    return content if is_cell else tag("td", content)


def _draw(axes: Axes, found: Sequence[Point], aside: Sequence[Point], kinds: Sequence[str]) -> None:
    every = [*aside, *found]
    _frame(axes, every)
    _contours(axes, every)
    _front(axes, found)
    for kind, name in enumerate(kinds):
        points = [point for point in every if point.kind == kind]
        if points:
            _marks(axes, points, kind, name)
    for point in found:
        if point.kind != _OTHER:
            _whiskers(axes, point)
            axes.annotate(
                point.name,
                (point.tokens, point.score),
                xytext=(7, 5),
                textcoords="offset points",
                parse_math=False,
            )


def _frame(axes: Axes, every: Sequence[Point]) -> None:
    tokens = [point.tokens for point in every]
    room = 0.12 * max(max(tokens) - min(tokens), 0.5 * max(tokens), 1.0)
    scores = [end for point in every for end in point.score_ends]
    axes.set_xlim(max(0.0, min(tokens) - room), max(tokens) + room)
    axes.set_ylim(max(0.0, min(scores) - 5), min(100.0, max(scores) + 5))
    axes.set_xlabel("T: completion tokens per query, planning included")
    axes.set_ylabel("score, %")
    axes.spines[["top", "right"]].set_visible(False)


def _contours(axes: Axes, every: Sequence[Point]) -> None:
    """Lines of equal E³, with their value where they leave the picture."""
    (low, high), (floor, top) = axes.get_xlim(), axes.get_ylim()
    tokens = np.linspace(low, high, 200)
    for value in contour_values([point.e3 for point in every]):
        scores = np.sqrt(value * tokens)
        axes.plot(tokens, scores, color=_QUIET, linewidth=0.8, linestyle=(0, (1, 4)))
        inside = tokens[(scores >= floor) & (scores <= top)]
        if len(inside):
            end = float(inside[-1])
            style: dict[str, Any] = {"color": _QUIET, "fontsize": 8, "fontstyle": "italic"}
            axes.text(end, float(np.sqrt(value * end)), f"E³ = {value:g}", ha="right", **style)


def _front(axes: Axes, found: Sequence[Point]) -> None:
    best = front(found)
    if len(best) > 1:
        tokens, scores = [p.tokens for p in best], [p.score for p in best]
        axes.step(tokens, scores, where="post", color=_INK, linewidth=1.5, alpha=0.6)


def _marks(axes: Axes, points: Sequence[Point], kind: int, name: str) -> None:
    axes.scatter(
        [point.tokens for point in points],
        [point.score for point in points],
        marker=_SHAPES[kind],
        s=55 if kind in {_ORIGINAL, _CHOSEN} else 32,
        facecolors="none" if kind == _GIVEN_UP else _COLOURS[kind],
        edgecolors=_COLOURS[kind] if kind == _GIVEN_UP else "white",
        linewidths=1.0,
        zorder=3,
        label=name,
    )


def _whiskers(axes: Axes, point: Point) -> None:
    low, high = point.token_ends
    if low is not None and high is not None:
        axes.plot([low, high], [point.score] * 2, color=_COLOURS[point.kind], alpha=0.4)
    axes.plot([point.tokens] * 2, list(point.score_ends), color=_COLOURS[point.kind], alpha=0.4)
