"""Charts of a report, drawn by Vega-Altair; `to_svg` renders one without script and style.

Each function takes a table and returns a chart, which a notebook shows by itself. The Altair theme
``plan_and_budget`` makes a chart legible on white and on dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Literal, TypeAlias

import altair as alt
import numpy as np
import pandas as pd
from markupsafe import Markup

from optim.records import Record
from optim.reporting.tables import PARTS, STUDY, answers, figures
from pb_graph.errors import InputError
from pb_graph.types import Report

Chart: TypeAlias = alt.Chart | alt.LayerChart | alt.FacetChart

_WIDTH, _HEIGHT = 640, 400
_LETTER, _LINE = 7.0, 14.0  # width and height of a label's letter
_MARGINS = {"left": 40, "right": 5, "top": 5, "bottom": 5}  # fonts of browsers may be wider
# Angles can end the script of a notebook's page; control characters and lone surrogates abort Vega.
_UNPRINTABLE = {*range(0x20), 0x7F, *range(0xD800, 0xE000)} - {*b"\b\t\n\f\r"}
_SAFE = str.maketrans("<>", "\u2039\u203a") | dict.fromkeys(_UNPRINTABLE, "?")
# Colours that people with a weakness of red and green tell apart (Okabe and Ito 2008).
_COLOURS = ["#E69F00", "#F0E442", "#56B4E9", "#0072B2", "#009E73", "#CC79A7"]
_GREY = "#757575"  # has a contrast of 4.6 on white, and of 4 on the dark page of GitHub


@alt.theme.register("plan_and_budget", enable=False)
def _theme() -> alt.theme.ThemeConfig:
    """Return colours that are legible on white and on dark pages, without a background."""
    words: Any = {"labelColor": _GREY, "titleColor": _GREY}
    axis: Any = words | dict.fromkeys(["domainColor", "tickColor", "gridColor"], _GREY)
    return {
        "config": {
            "background": "transparent",
            "axis": axis | {"gridOpacity": 0.25},
            "header": words,
            "legend": words,
            "rule": {"color": _GREY},
            "text": {"color": _GREY},
            "view": {"stroke": _GREY, "strokeOpacity": 0.25},
        }
    }


def plot(records: Iterable[Record]) -> Chart:
    """Draw accuracy against tokens for the records of one data set, solver and planner.

    Raises:
        InputError: If no answer is scored, or there are several data sets, solvers or planners.
    """
    rows = figures(answers(records))
    if rows.e3.isna().all():
        msg = "no answer has a score yet, so there is nothing to draw"
        raise InputError(msg)
    if len(rows[list(STUDY)].drop_duplicates()) > 1:
        msg = "one chart shows one data set, solver and planner: filter the records first"
        raise InputError(msg)
    return plane(rows)


def plane(rows: pd.DataFrame, cost: Literal["tokens", "money"] = "tokens") -> Chart:
    """Draw `figures`: accuracy against tokens or money, 95 % intervals and the Pareto front.

    Against tokens, dotted lines join equal E³. The default has a square mark and a bold name.
    """
    table = safe(rows.dropna(subset=["accuracy", cost, "e3"]))
    table = table.assign(is_default=table.method.isin(["default", "default_estimated"]))
    # An interval that reaches far does not press the points into a corner: it is clipped.
    cheap, dear = table[cost].min(), table[cost].max()
    x_range = [0.0, dear + max(dear - cheap, 0.3 * dear) / 2]
    y_range = [max(0.0, table.accuracy_lower.min() - 4), min(104.0, table.accuracy_upper.max() + 4)]
    table["label_x"], table["label_y"] = _label_places(table, cost, x_range, y_range)

    scales = [alt.Scale(domain=ends, nice=False, zero=False) for ends in (x_range, y_range)]
    titles = {
        "tokens": "T: completion tokens per question, planning included",
        "money": f"money, {table.money_unit.iloc[0]}",
    }
    x = partial(alt.X, type="quantitative", title=titles[cost], scale=scales[0])
    y = partial(alt.Y, type="quantitative", title="accuracy, %", scale=scales[1])
    base = alt.Chart(table)
    rules = base.mark_rule(opacity=0.5, clip=True)
    shown = dict.fromkeys(["accuracy", cost, "tokens", "e3"])
    marks = base.mark_point(filled=True, opacity=1).encode(
        x(cost), y("accuracy"),
        shape=alt.Shape("is_default:N", legend=None, scale=alt.Scale(range=["circle", "square"])),
        size=alt.condition("datum.is_default", alt.value(170), alt.value(70)),
        tooltip=["method", *(alt.Tooltip(name, format=".1f") for name in shown)],
    )  # fmt: skip
    weight = alt.ExprRef("datum.is_default ? 'bold' : 'normal'")
    named = base.encode(x("label_x"), y("label_y"), text="method:N")
    names = named.mark_text(align="left", dy=-8, fontSize=12, fontWeight=weight)
    ranked = table.sort_values([cost, "accuracy"], ascending=[True, False])
    front = alt.Chart(ranked[ranked.accuracy > ranked.accuracy.cummax().shift(fill_value=-1.0)])
    layers = [
        front.mark_line(interpolate="step-after", color=_GREY).encode(x(cost), y("accuracy")),
        rules.encode(x(cost), y("accuracy_lower"), y2="accuracy_upper"),
        marks,
        names,
    ]
    if cost == "tokens":
        layers.insert(1, rules.encode(x("tokens_lower"), y("accuracy"), x2="tokens_upper"))
        layers.insert(0, _contours(table.e3, x_range, y_range))
    return alt.layer(*layers, width=_WIDTH, height=_HEIGHT)


def ladder(rows: pd.DataFrame) -> Chart:
    """Draw accuracy against tokens at each cap of `caps.ladders`, a line for each method."""
    base = alt.Chart(safe(rows), width=_WIDTH, height=_HEIGHT // 2).encode(
        x=alt.X("tokens:Q", title="T: completion tokens under the cap", scale=alt.Scale(zero=True)),
        y=alt.Y("accuracy:Q", title="accuracy, %"),
        color=alt.Color("method:N", title=None, scale=alt.Scale(range=_COLOURS[2:])),
    )
    lines = base.mark_line(point=True).encode(
        order="cap:Q", tooltip=["method", "cap", "accuracy", "tokens", "money", "e3"]
    )
    return alt.layer(lines, base.mark_text(dy=-10, fontSize=10).encode(text="cap:Q"))


def safe(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose texts can neither run anything in a notebook nor abort Vega."""
    texts = table.select_dtypes(["object", "string", "category"]).columns
    return table.assign(**{
        name: [v.translate(_SAFE) if isinstance(v, str) else v for v in table[name]]
        for name in texts
    })  # fmt: skip


def _label_places(
    table: pd.DataFrame, cost: str, x_range: Sequence[float], y_range: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Return the places of the labels beside their points, moved up where labels overlap."""
    per_x, per_y = _WIDTH / (x_range[1] - x_range[0]), _HEIGHT / (y_range[1] - y_range[0])
    boxes: dict[Any, tuple[float, float, float]] = {}  # left, right and middle
    for row in table.sort_values("accuracy").itertuples():
        left, middle = (getattr(row, cost) - x_range[0]) * per_x + 9, row.accuracy * per_y
        width = _LETTER * len(row.method)
        left -= 18 + width if left + width > _WIDTH + 60 else 0
        for start, end, height in sorted(boxes.values(), key=lambda box: box[2]):
            if left < end and start < left + width and abs(middle - height) < _LINE:
                middle = height + _LINE
        boxes[row.Index] = left, left + width, middle
    ordered = [boxes[index] for index in table.index]
    return [box[0] / per_x + x_range[0] for box in ordered], [box[2] / per_y for box in ordered]


def _contours(
    e3: pd.Series[float], x_range: Sequence[float], y_range: Sequence[float]
) -> alt.Chart:
    """Draw dotted lines of equal E³."""
    values = np.quantile(e3, [0, 1 / 3, 2 / 3, 1])
    along = np.linspace(x_range[0], x_range[1], 50)
    curves = pd.DataFrame(product(values, along), columns=["e3", "tokens"])
    curves["accuracy"] = np.sqrt(curves.e3 * curves.tokens)
    lines = alt.Chart(curves[curves.accuracy.between(*y_range)])
    layer: alt.Chart = lines.mark_line(strokeDash=[2, 4], color=_GREY, strokeWidth=1).encode(
        x="tokens:Q", y="accuracy:Q", detail="e3:N"
    )
    return layer


def parts(rows: pd.DataFrame, title: str = "mean completion tokens per question") -> alt.Chart:
    """Draw a stacked bar of the tokens of each part, for each method."""
    rows = safe(rows)
    order = list(dict.fromkeys([*PARTS.values(), *rows.part]))
    table = rows.assign(place=rows.part.map(order.index))
    colours = [_COLOURS[place % len(_COLOURS)] for place in range(len(order))]
    chart = alt.Chart(table, width=_WIDTH - 160, padding=_MARGINS)
    sort = [name for name in order if name in set(rows.part)]
    bars: alt.Chart = chart.mark_bar().encode(
        x=alt.X("tokens:Q", title=title),
        y=alt.Y("method:N", sort=None, title=None),
        color=alt.Color(
            "part:N", title=None, sort=sort, scale=alt.Scale(domain=order, range=colours),
            legend=alt.Legend(orient="top", values=sort),
        ),
        order="place:Q",
        tooltip=["method", "part", alt.Tooltip("tokens", format=".1f")],
    )  # fmt: skip
    return bars


def by_level(rows: pd.DataFrame, field: str = "accuracy") -> alt.FacetChart:
    """Draw the accuracy or the tokens of each level with intervals, a panel for each method."""
    title = {"accuracy": "accuracy, %", "tokens": "T"}[field]
    table = safe(rows.dropna(subset=["level", field]))
    base = alt.Chart(table).encode(alt.X("level:O", title="level"))
    lines = base.mark_line(point=True).encode(alt.Y(f"{field}:Q", title=title))
    ends = base.mark_rule(clip=True).encode(y=f"{field}_lower:Q", y2=f"{field}_upper:Q")
    layered = alt.layer(ends, lines, data=table).properties(width=130, height=90)
    return layered.facet(facet=alt.Facet("method:N", title=None, sort=None), columns=4)


def spending(report: Report | Mapping[str, Any]) -> Chart:
    """Draw the completion tokens of one question by part, beside its caps and its limit.

    Args:
        report: ``out["report"]`` of the graph, or that of a record.
    """
    rows: list[tuple[str, int, int | None]] = []
    nodes = report["usage"]["by_node"]
    for node in sorted(nodes, key=[*PARTS, *nodes].index):
        if node == "solve":
            steps = enumerate(report["steps"], 1)
            rows += [(f"{n}. {s['question']}", s["tokens"] or 0, s["cap"]) for n, s in steps]
        else:
            rows.append((PARTS.get(node, node), nodes[node]["output_tokens"], None))
    table = safe(pd.DataFrame(rows, columns=["part", "tokens", "cap"]).astype({"cap": float}))
    table["end"] = table.tokens.cumsum()
    table["start"] = table.end - table.tokens
    table["cap"] = table.start + table.cap.fillna(table.tokens)
    spent = table.tokens.sum()
    limit = report["limit"]
    of = "" if limit is None else f" of at most {limit:,}"
    base = alt.Chart(table).encode(
        x=alt.X("start:Q", title=f"{spent:,}{of} completion tokens"),
        y=alt.Y("part:N", sort=None, title=None, axis=alt.Axis(labelLimit=400)),
    )
    layers = [
        base.mark_bar(color=_GREY, opacity=0.3).encode(x2="cap:Q"),
        base.mark_bar(height=12).encode(x2="end:Q"),
    ]
    if limit is not None:
        rule = alt.Chart(pd.DataFrame({"limit": [limit]}))
        layers.append(rule.mark_rule(color="#d1495b", strokeWidth=2).encode(x="limit:Q"))
    return alt.layer(*layers, width=420, padding=_MARGINS)


def to_svg(chart: Chart) -> Markup:
    """Return a chart as SVG without script and style."""
    import vl_convert  # noqa: PLC0415 -- loads a JavaScript engine

    with alt.theme.enable("plan_and_budget"):
        return Markup(vl_convert.vegalite_to_svg(chart.to_dict()))  # noqa: S704 -- Vega escapes
