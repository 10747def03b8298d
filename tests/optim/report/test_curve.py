"""A curve as rows, as a drawing and as a page."""

from __future__ import annotations

import re
from dataclasses import replace

from optim.bam.curve import curve_of
from optim.report.curve import check_rows, curve_page, level_rows, plot_curve, point_rows
from tests.optim.bam.test_curve import BUDGETS, record, records

CURVE = curve_of([*records(), *(record(1, 100, 100 + n, "told") for n in range(12))], "vanilla")


def test_rows_say_each_thing_once() -> None:
    assert [row["budget"] for row in point_rows(CURVE)] == list(BUDGETS)
    assert [row["total"] for row in level_rows(CURVE)] == [50, 100, 100, 400, 50]
    (row,) = check_rows(CURVE)
    assert (row["against"], row["points"], row["differ"]) == ("told", 0, 0)
    worse = curve_of([*records(), *(record(1, 100, 400 + n, "told") for n in range(12))], "vanilla")
    assert [row["p"] for row in check_rows(worse)] == ["< 0.001"]


def test_the_drawing_tells_those_who_do_not_see_it() -> None:
    drawing = str(plot_curve(CURVE).svg)
    label = re.search(r'aria-label="([^"]*)"', drawing)
    assert label
    assert "budget 400: 80.0 %" in label[1]
    assert drawing.count("<circle") == len(BUDGETS)
    assert drawing.count("<polygon") == 1
    assert "told its budget, 100: 100.0 %" in drawing  # it answered the easy ones only


def test_the_page_holds_figure_and_tables_and_escapes_names() -> None:
    evil = replace(record(1, 100, 0), model="<script>alert(1)</script>")
    page = curve_page(curve_of([evil], "vanilla"))
    assert "<script" not in page
    assert "Checked against" not in page
    page = curve_page(CURVE)
    for heading in ("By budget", "Totals by level", "Checked against runs of their own"):
        assert f"<h3>{heading}</h3>" in page
