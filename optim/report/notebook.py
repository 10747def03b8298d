"""A chart for notebooks: interactive where plotly is installed, else the report's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from optim.report.markup import Markup, tag
from optim.report.page import style_sheet
from optim.report.scatter import KINDS, Point, front, points, scatter
from optim.report.studies import studies
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.records import Record

__all__ = ["Chart", "plot"]


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing that a notebook shows by itself."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def plot(records: Sequence[Record], *, interactive: bool | None = None) -> Any:  # noqa: ANN401
    """Draw score against tokens with 95 % intervals and the Pareto front.

    Args:
        records: Answers of one data set with one solver and one planner.
        interactive: A ``plotly.graph_objects.Figure``; None takes plotly where it is installed,
            and False, or no plotly, gives a `Chart`.

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
    if interactive is None:
        interactive = find_spec("plotly") is not None
    return _figure(drawn) if interactive else _chart(drawn)


def _chart(drawn: Sequence[Point]) -> Chart:
    style = tag("style", Markup(style_sheet("charts.css")))
    return Chart(tag("div", style, scatter(drawn, 760, 440), class_="pb"))


def _figure(drawn: Sequence[Point]) -> Any:  # noqa: ANN401 -- plotly is optional
    figure = import_module("plotly.graph_objects").Figure()
    best = front(drawn)
    figure.add_scatter(
        x=[p.tokens for p in best], y=[p.score for p in best],
        mode="lines", line_shape="hv", name="Pareto front",
    )  # fmt: skip
    for kind, name in enumerate(KINDS):
        some = [point for point in drawn if point.kind == kind]
        if some:
            figure.add_scatter(**_trace(some, name))
    figure.update_layout(
        xaxis_title="T: completion tokens per query, planning included", yaxis_title="score, %"
    )
    return figure


def _trace(some: Sequence[Point], name: str) -> dict[str, Any]:
    return {
        "x": [p.tokens for p in some],
        "y": [p.score for p in some],
        "error_x": _bars([p.tokens for p in some], [p.token_ends for p in some]),
        "error_y": _bars([p.score for p in some], [p.score_ends for p in some]),
        "text": [p.name for p in some],
        "hovertext": [str(p) for p in some],
        "mode": "markers+text",
        "textposition": "top center",
        "name": name,
    }


def _bars(
    values: Sequence[float], ends: Sequence[tuple[float | None, float | None]]
) -> dict[str, Any]:
    pairs = list(zip(values, ends, strict=True))
    return {
        "type": "data",
        "symmetric": False,
        "array": [0.0 if end[1] is None else end[1] - value for value, end in pairs],
        "arrayminus": [0.0 if end[0] is None else value - end[0] for value, end in pairs],
        "width": 0,
    }
