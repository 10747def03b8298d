"""Charts: what is drawn, and that an SVG has neither script nor style."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from optim.reporting import answers, figures, plot, spending
from optim.reporting import charts as draw
from optim.reporting.tables import by_level, token_parts
from pb_graph.errors import InputError
from tests.optim.reporting.samples import record, records

TABLE = answers(records(["vanilla", "cosine", "stepwise", "default"], errors=False))
CHARTS = {
    "plane": draw.plane(figures(TABLE)),
    "money": draw.plane(figures(TABLE), "money"),
    "parts": draw.parts(token_parts(TABLE)),
    "levels": draw.by_level(by_level(TABLE)),
    "spending": spending(records(["stepwise"])[0].report),
}


@pytest.mark.parametrize("name", CHARTS)
def test_an_svg_runs_nothing_and_names_what_it_shows(name: str) -> None:
    svg = draw.to_svg(CHARTS[name])
    assert not re.search(r"<script|<style|style=|href=|onload", svg)
    words = {
        "plane": "completion tokens per question", "parts": "estimate",
        "money": "money, units",
        "levels": "level", "spending": "completion tokens",
    }  # fmt: skip
    assert words[name] in svg


def test_no_text_of_a_model_ends_the_script_of_a_notebook() -> None:
    hostile = "</script><script>alert(1)</script><!--"
    one = records(["stepwise"], errors=False)[0]
    for step in one.report["steps"]:
        step["question"] = hostile
    found = [
        replace(each, method=hostile + each.method, model=hostile, dataset=hostile)
        for each in records(["vanilla", "cosine"], errors=False)
    ]
    found[0].report["usage"]["by_node"][hostile] = found[0].report["usage"]["by_node"]["answer"]
    table = answers(found)
    charts = [plot(found), draw.plane(figures(table), "money"), draw.parts(token_parts(table)),
              draw.by_level(by_level(table)), spending(one.report)]  # fmt: skip
    for chart in charts:
        html = chart.to_html(inline=False)
        assert hostile[:9] not in json.dumps(chart.to_dict(), ensure_ascii=False)
        assert "alert(1)" in html
        assert "<script>alert" not in html
        assert "<!--" not in html.partition("<body>")[2]


def test_the_default_is_marked_and_every_method_is_labelled() -> None:
    svg = draw.to_svg(draw.plane(figures(TABLE)))
    for method in ("vanilla", "cosine", "stepwise"):
        assert f">{method}</text>" in svg
    assert re.search(r'font-weight="bold"[^>]*>default</text>', svg)


def test_one_chart_shows_one_study() -> None:
    with pytest.raises(InputError, match="one chart shows one data set"):
        plot([record("vanilla", 0, score=1.0), record("vanilla", 0, score=1.0, model="other")])
    with pytest.raises(InputError, match="no answer has a score yet"):
        plot([record("vanilla", 0, score=None, error="HTTP 500")])
