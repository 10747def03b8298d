"""Accuracy against budget as a drawing, a page and rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from optim.report.figures import Figure, framed, key, marker
from optim.report.formatting import ends, number, p_value
from optim.report.svg import Frame, polyline, svg, whisker

if TYPE_CHECKING:
    from optim.bam.curve import BudgetCurve, Check, Point
    from optim.summary import Cells

_KINDS = {"separate": 1, "told": 2}
_KEYS = {
    "separate": "a run of its own, with a cap that is real",
    "told": "a run that is told its budget",
}


def plot_curve(curve: BudgetCurve) -> Figure:
    """Draw accuracy against budget with 95 % intervals, and the runs beside it."""
    return Figure(_drawing(curve, 760, 420))


def curve_page(curve: BudgetCurve) -> str:
    """Make one HTML page of a curve, which loads nothing and runs nothing."""
    from optim.report.template import render  # noqa: PLC0415 -- brings jinja2

    kinds = dict.fromkeys(check.kind for check in curve.checks)
    keys = [(0, f"{curve.method}, cut from one answer"), *((_KINDS[k], _KEYS[k]) for k in kinds)]
    return render(
        "report/curve.html.j2",
        title=f"{curve.dataset}: accuracy against budget",
        curve=curve,
        figures=[_drawing(curve, 760, 420, "broad"), _drawing(curve, 350, 380, "slim")],
        keys_=[(key(kind), words) for kind, words in keys],
        tables=[
            ("By budget", point_rows(curve)),
            ("Totals by level", level_rows(curve)),
            ("Checked against runs of their own", check_rows(curve)),
        ],
    )


def point_rows(curve: BudgetCurve) -> list[Cells]:
    """A row for each budget."""
    return [
        {
            "budget": point.budget,
            "questions": point.row.questions,
            "n": point.row.n,
            "errors": point.row.errors,
            "accuracy %": point.row.accuracy,
            "95 %": ends(point.row.accuracy_lower, point.row.accuracy_upper),
            "T": point.row.tokens,
            "E³": point.row.e3,
            "E³, 95 %": ends(point.row.e3_lower, point.row.e3_upper, 2),
            "cut %": 100 * point.cut,
        }
        for point in curve.points
    ]


def level_rows(curve: BudgetCurve) -> list[Cells]:
    """A row for the total of each level."""
    return [
        {
            "level": total.level,
            "questions": total.questions,
            "total": total.budget,
            "accuracy %": total.accuracy,
            "T": total.tokens,
            "chosen by": "its own questions" if total.own else "all levels: it has too few",
        }
        for total in curve.levels
    ]


def check_rows(curve: BudgetCurve) -> list[Cells]:
    """A row for each run that a point was checked against; differences are curve minus run."""
    return [
        {
            "budget": check.budget,
            "against": check.kind,
            "questions": check.comparison.questions,
            "points": check.comparison.accuracy_difference,
            "95 %": ends(check.comparison.accuracy_lower, check.comparison.accuracy_upper),
            "p": p_value(check.comparison.accuracy_p_value),
            "differ": check.comparison.discordant,
            "ratio of T": check.comparison.tokens_ratio,
        }
        for check in curve.checks
    ]


def _drawing(curve: BudgetCurve, width: int, height: int, class_: str = "") -> Markup:
    points = [point for point in curve.points if point.row.accuracy is not None]
    frame = _frame(points, curve.checks, width, height)
    places = [(frame.x(math.log2(p.budget)), frame.y(p.row.accuracy or 0.0)) for p in points]
    label = f"Accuracy of {curve.method} in percent against the budget in tokens. " + "; ".join(
        _told(point) for point in points
    )
    return svg(
        width,
        height,
        label,
        frame.axes(
            "budget: completion tokens of solving",
            "accuracy, %",
            {math.log2(point.budget): number(point.budget) for point in points},
        ),
        polyline(places, "front") if len(places) > 1 else None,
        [
            whisker(frame.y, x, (p.row.accuracy_lower, p.row.accuracy_upper), upright=True)
            for (x, _), p in zip(places, points, strict=True)
        ],
        [_check_mark(check, frame) for check in curve.checks],
        [marker(0, x, y, _told(p)) for (x, y), p in zip(places, points, strict=True)],
        class_=class_,
    )


def _frame(points: Sequence[Point], checks: Sequence[Check], width: int, height: int) -> Frame:
    budgets = [math.log2(point.budget) for point in points]
    scores = [
        e for p in points for e in (p.row.accuracy_lower, p.row.accuracy_upper) if e is not None
    ]
    scores += [check.accuracy for check in checks]
    pad = max(0.15, 0.04 * (max(budgets) - min(budgets)))
    return framed((min(budgets) - pad, max(budgets) + pad), scores, width, height)


def _check_mark(check: Check, frame: Frame) -> Markup:
    words = f"{_KEYS[check.kind]}, {number(check.budget)}: {number(check.accuracy, 1)} %"
    x, y = frame.x(math.log2(check.budget)), frame.y(check.accuracy)
    return marker(_KINDS[check.kind], x, y, words, size=9)  # the curve's own mark stands in it


def _told(point: Point) -> str:
    between = ends(point.row.accuracy_lower, point.row.accuracy_upper)
    return f"budget {number(point.budget)}: {number(point.row.accuracy, 1)} % ({between})"
