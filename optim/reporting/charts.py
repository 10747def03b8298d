"""Charts of a report, drawn by Vega-Altair; `to_svg` renders one without script and style.

Each function takes a table and returns a chart, which a notebook shows by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import altair as alt
import numpy as np
import pandas as pd
from markupsafe import Markup

from optim.reporting.tables import PARTS

if TYPE_CHECKING:
    from pb_graph.types import Report

Chart: TypeAlias = alt.Chart | alt.LayerChart | alt.FacetChart
Box: TypeAlias = tuple[float, float, float, float]

_WIDTH, _HEIGHT = 640, 400
_LETTER, _LINE = 7.0, 14.0  # width and height of a label's letter
_E3_LINES = 4
_UNPRINTABLE = r"\\u00[01][0-9a-f]|[\x7f\ud800-\udfff]"  # as JSON writes it
_MOST_ROOM = 1.5  # the axis of tokens reaches this far beyond the dearest point, at most
_TOKENS = "T: completion tokens per question, planning included"


def plane(rows: pd.DataFrame) -> Chart:
    """Draw accuracy against tokens: 95 % intervals, lines of equal E³, and the Pareto front.

    Args:
        rows: Figures with ``method``, ``accuracy``, ``tokens``, ``e3`` and the ends of the
            intervals of the first two; optional ``kind`` (colour),
            ``is_labelled`` and ``is_ranked`` (whether it may be on the front).
            The method ``default`` has a square mark and a bold name.
    """
    table = rows.dropna(subset=["accuracy", "tokens", "e3"]).assign(
        is_default=lambda one: one.method.isin(["default", "default_estimated"])
    )
    table = table.assign(
        **{n: table.get(n, v) for n, v in (("kind", "row"), ("is_labelled", True))}
    )
    x_range, y_range = _ranges(table)
    table["label_x"], table["label_y"] = _label_places(table, x_range, y_range)
    scale_x, scale_y = (
        alt.Scale(domain=ends, nice=False, zero=False) for ends in (x_range, y_range)
    )
    x = alt.X("tokens:Q", title=_TOKENS, scale=scale_x)
    y = alt.Y("accuracy:Q", title="accuracy, %", scale=scale_y)
    color = alt.Color(
        "kind:N", title=None, legend=None if len(set(table.kind)) == 1 else alt.Legend()
    )
    shape = alt.Shape("is_default:N", legend=None, scale=alt.Scale(range=["circle", "square"]))
    base = alt.Chart(table)
    size = alt.condition("datum.is_default", alt.value(170), alt.value(70))
    tips = ["method", *(alt.Tooltip(name, format=".1f") for name in ("accuracy", "tokens", "e3"))]
    marks = base.mark_point(filled=True, opacity=1).encode(
        x, y, color=color, shape=shape, size=size, tooltip=tips
    )
    across = base.mark_rule(opacity=0.5, clip=True).encode(
        x=alt.X("tokens_lower:Q", title=_TOKENS, scale=scale_x),
        x2="tokens_upper:Q",
        y=y,
        color=color,
    )
    upright = base.mark_rule(opacity=0.5, clip=True).encode(
        x=x,
        y=alt.Y("accuracy_lower:Q", title="accuracy, %", scale=scale_y),
        y2="accuracy_upper:Q",
        color=color,
    )
    layers: list[alt.Chart] = [_contours(table, x_range, y_range), _front(table)]
    layers += [across, upright, marks]
    for is_default in (False, True):
        text = base.mark_text(
            align="left", fontSize=12, fontWeight="bold" if is_default else "normal"
        )
        which = alt.FieldEqualPredicate(field="is_default", equal=is_default)
        layers.append(
            text.encode(x="label_x:Q", y="label_y:Q", text="method:N")
            .transform_filter(which)
            .transform_filter("datum.is_labelled")
        )
    return alt.layer(*layers, width=_WIDTH, height=_HEIGHT)


def _ranges(table: pd.DataFrame) -> tuple[list[float], list[float]]:
    """Return the ends of both axes; long intervals do not press the points into a corner."""
    cheap, dear = table.tokens.min(), table.tokens.max()
    room = max(dear - cheap, 0.3 * dear)
    low = max(table.tokens_lower.fillna(table.tokens).min(), cheap - room / 2, 0.0)
    high = min(table.tokens_upper.fillna(table.tokens).max(), dear * _MOST_ROOM)
    ends = pd.concat([table.accuracy, table.accuracy_lower, table.accuracy_upper]).dropna()
    floor, ceiling = max(0.0, ends.min() - 4), min(104.0, ends.max() + 4)
    return [max(0.0, low - 0.05 * room), high + 0.2 * room], [floor, max(ceiling, floor + 10)]


def _label_places(
    table: pd.DataFrame, x_range: Sequence[float], y_range: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Return places of the names that cover neither each other nor a point, if there are any."""
    per_x, per_y = _WIDTH / (x_range[1] - x_range[0]), _HEIGHT / (y_range[1] - y_range[0])
    spots = [
        ((row.tokens - x_range[0]) * per_x, _HEIGHT - (row.accuracy - y_range[0]) * per_y)
        for row in table.itertuples()
    ]
    taken: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for x, y in spots]
    places = []
    for (x, y), name, shown in zip(spots, table.method, table.is_labelled, strict=True):
        options = list(_boxes(x, y, _LETTER * len(name)))
        inside = [b for b in options if b[0] >= 0 and b[2] <= _WIDTH + 60 and 0 <= b[1] <= _HEIGHT]
        free = (box for box in inside if not any(_overlap(box, other) for other in taken))
        box = next(free, [*inside, *options][0])
        if shown:
            taken.append(box)
        places.append((box[0] / per_x + x_range[0], y_range[1] - (box[1] + box[3]) / 2 / per_y))
    return [x for x, _ in places], [y for _, y in places]


def _boxes(x: float, y: float, width: float) -> Iterator[Box]:
    for away in (9, 16, 26, 38, 52):
        for dx, dy in ((1, 0), (1, -1), (1, 1), (-1, 0), (-1, -1), (-1, 1), (0, -1), (0, 1)):
            left = x + dx * away - (width if dx < 0 else 0 if dx else width / 2)
            middle = y + dy * away
            yield left, middle - _LINE / 2, left + width, middle + _LINE / 2


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _contours(table: pd.DataFrame, x_range: Sequence[float], y_range: Sequence[float]) -> alt.Chart:
    tokens = np.linspace(max(x_range[0], 1e-9), x_range[1], 50)
    values = np.quantile(table.e3, np.linspace(0, 1, _E3_LINES))
    curves = pd.DataFrame(
        [{"e3": v, "tokens": t, "accuracy": (v * t) ** 0.5} for v in values for t in tokens]
    )
    curves = curves[curves.accuracy.between(*y_range)]
    lines = alt.Chart(curves).mark_line(strokeDash=[2, 4], color="gray", strokeWidth=1)
    drawn: alt.Chart = lines.encode(x="tokens:Q", y="accuracy:Q", detail="e3:N")
    return drawn


def _front(table: pd.DataFrame) -> alt.Chart:
    known = table[table.is_ranked] if "is_ranked" in table else table
    ranked = known.sort_values(["tokens", "accuracy"], ascending=[True, False])
    best = ranked.accuracy.cummax().shift(fill_value=-1.0)
    line = alt.Chart(ranked[ranked.accuracy > best])
    drawn: alt.Chart = line.mark_line(interpolate="step-after", color="#999").encode(
        x="tokens:Q", y="accuracy:Q"
    )
    return drawn


def ratios(rows: pd.DataFrame) -> Chart:
    """Draw each method's ratio of E³ to the baseline's, on a log axis, with its interval."""
    table = rows[rows.get("ratio", pd.Series(dtype=float)) > 0].assign(
        shown_upper=lambda one: one.upper.fillna(one.ratio * 8)
    )
    title = "ratio of E³ to the baseline's"
    x = alt.X("ratio:Q", title=title, scale=alt.Scale(type="log", base=2))
    y = alt.Y("method:N", sort=None, title=None)
    base = alt.Chart(table)
    ends = base.mark_rule().encode(x=alt.X("lower:Q", title=title), x2="shown_upper:Q", y=y)
    one = alt.Chart(pd.DataFrame({"ratio": [1.0]})).mark_rule(strokeDash=[3, 3]).encode(x=x)
    dots = base.mark_point(filled=True, opacity=1, size=70).encode(x, y)
    return alt.layer(one, ends, dots, width=_WIDTH - 160)


def parts(rows: pd.DataFrame, title: str = "mean completion tokens per question") -> alt.Chart:
    """Draw a stacked bar for each method.

    Args:
        rows: ``method``, ``part`` and ``tokens``.
        title: Title of the axis.
    """
    order = [name for name in PARTS.values() if name in set(rows.part)]
    order += [name for name in dict.fromkeys(rows.part) if name not in order]
    table = rows.assign(place=rows.part.map(order.index))
    bars: alt.Chart = (
        alt.Chart(table, width=_WIDTH - 160)
        .mark_bar()
        .encode(
            x=alt.X("tokens:Q", title=title),
            y=alt.Y("method:N", sort=None, title=None),
            color=alt.Color("part:N", title=None, sort=order, legend=alt.Legend(orient="top")),
            order="place:Q",
            tooltip=["method", "part", alt.Tooltip("tokens", format=".1f")],
        )
    )
    return bars


def by_level(rows: pd.DataFrame, field: str = "accuracy") -> alt.FacetChart:
    """Draw a figure by level with its interval, a panel for each method.

    Args:
        rows: Figures by method and level.
        field: ``accuracy`` or ``tokens``.
    """
    title = {"accuracy": "accuracy, %", "tokens": "T"}[field]
    table = rows.dropna(subset=["level", field])
    base = alt.Chart(table)
    x = alt.X("level:O", title="level")
    lines = base.mark_line(point=True).encode(x, alt.Y(f"{field}:Q", title=title))
    ends = base.mark_rule(clip=True).encode(x=x, y=f"{field}_lower:Q", y2=f"{field}_upper:Q")
    layered = alt.layer(ends, lines, data=table).properties(width=130, height=90)
    return layered.facet(facet=alt.Facet("method:N", title=None, sort=None), columns=4)


def spending(report: Report | Mapping[str, Any]) -> Chart:
    """Draw the completion tokens of one question by part, beside its caps and its ceiling.

    Args:
        report: ``out["report"]`` of the graph, or that of a record.
    """
    rows: list[dict[str, Any]] = []
    spent = 0
    nodes = report["usage"]["by_node"]
    for node in sorted(nodes, key=[*PARTS, *nodes].index):
        found = [(PARTS.get(node, node), nodes[node]["output_tokens"], None)]
        if node == "solve":
            steps = enumerate(report["steps"], 1)
            found = [(f"{n}. {s['question'][:48]}", s["tokens"] or 0, s["cap"]) for n, s in steps]
        for name, tokens, cap in found:
            end = spent + tokens
            cap_end = spent + cap if cap is not None else end
            rows.append({"part": name, "start": spent, "end": end, "cap": cap_end})
            spent = end
    ceiling = report["ceiling"]
    of = "" if ceiling is None else f" of at most {ceiling:,}"
    y = alt.Y("part:N", sort=None, title=None, axis=alt.Axis(labelLimit=320))
    x = alt.X("start:Q", title=f"{spent:,}{of} completion tokens")
    base = alt.Chart(pd.DataFrame(rows, columns=["part", "start", "end", "cap"]))
    layers = [
        base.mark_bar(color="#ddd").encode(x=x, x2="cap:Q", y=y),
        base.mark_bar(height=12).encode(x=x, x2="end:Q", y=y),
    ]
    if ceiling is not None:
        limit = alt.Chart(pd.DataFrame({"ceiling": [ceiling]}))
        layers.append(limit.mark_rule(color="firebrick").encode(x="ceiling:Q"))
    return alt.layer(*layers, width=420)


def to_svg(chart: Chart, name: str = "c") -> Markup:
    """Render a chart as SVG text without script and style.

    Args:
        chart: Chart of this module.
        name: Prefix of the ids in it, which differ within a page.
    """
    import vl_convert  # noqa: PLC0415 -- loads a JavaScript engine

    # A control character or a lone surrogate in a name aborts the engine.
    spec = re.sub(
        _UNPRINTABLE, "\N{REPLACEMENT CHARACTER}", json.dumps(chart.to_dict(), ensure_ascii=False)
    )
    svg: str = vl_convert.vegalite_to_svg(spec)
    ids: dict[str, str] = {}  # Vega numbers its ids on from drawing to drawing

    def renamed(found: re.Match[str]) -> str:
        return found[1] + ids.setdefault(found[2], f"{name}-{len(ids)}")

    return Markup(re.sub(r"((?:id=\"|url\(#))(\w+)", renamed, svg))  # noqa: S704 -- Vega escapes
