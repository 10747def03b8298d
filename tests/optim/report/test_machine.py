from __future__ import annotations

import csv
import io
import json

import pytest

from optim.report import Chart, as_csv, as_json, plot, studies
from optim.report.wording import factor, number, p_value, shortened, span
from optim.summary import rows
from pb_graph import InputError
from tests.optim.report.samples import records


def test_json_holds_the_figures_as_they_are() -> None:
    found = records()
    whole = as_json(studies(found), paper=True)
    json.dumps(whole, allow_nan=False)
    [study] = whole["studies"]
    assert study["rows"] == [row.to_dict() for row in rows(found)]
    assert [one["method"] for one in study["compared"]] == [
        row["method"] for row in study["rows"] if row["method"] != "global_budget"
    ]
    assert len(study["published"]) == 80
    assert len(study["by_level"]) == 5 * len(study["rows"])
    assert study["budgets"]["stepwise"]["unit"] == "step"
    assert "published" not in as_json(studies(found))["studies"][0]


def test_csv_has_a_line_for_each_method() -> None:
    found = records()
    lines = list(csv.DictReader(io.StringIO(as_csv(studies(found)))))
    assert [line["method"] for line in lines] == [row.method for row in rows(found)]
    assert float(lines[0]["e3"]) == rows(found)[0].e3
    assert lines[0]["baseline"] == "global_budget"
    assert float(lines[0]["vs_ratio"]) > 0
    assert lines[1]["vs_ratio"] == ""


def test_a_chart_for_notebooks_without_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optim.report.notebook.find_spec", lambda _: None)
    chart = plot(records())
    assert isinstance(chart, Chart)
    assert chart._repr_html_().startswith('<div class="pb"><style>')
    assert "<svg" in chart._repr_html_()


def test_a_chart_for_notebooks_with_plotly() -> None:
    pytest.importorskip("plotly")
    figure = plot(records())
    names = [name for trace in figure.data for name in trace.text or ()]
    assert sorted(names) == sorted({r.method for r in records()})


def test_a_chart_shows_one_study_that_has_scores() -> None:
    with pytest.raises(InputError, match="one data set"):
        plot([*records(["vanilla"]), *records(["vanilla"], dataset="gsm8k")])
    with pytest.raises(InputError, match="no answer has a score"):
        plot(records(["vanilla"], score=None))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (number(None), "–"),  # noqa: RUF001
        (number(-1234.5, 1), "\N{MINUS SIGN}1\N{NARROW NO-BREAK SPACE}234.5"),
        (factor(0.123), "0.12"),
        (factor(45.67), "45.7"),
        (factor(1.6e30), "2e30"),
        (p_value(0.0001), "< 0.001"),
        (p_value(0.04567), "0.046"),
        (span(1.0, None), "1.00\N{NO-BREAK SPACE}–\N{NO-BREAK SPACE}∞"),  # noqa: RUF001
        (span(None, None), "–"),  # noqa: RUF001
    ],
)
def test_numbers_are_written_for_readers(words: str, expected: str) -> None:
    assert words == expected


def test_a_text_that_fits_stays_whole() -> None:
    assert shortened("abc", 3) == ("abc", 0)
    cut, left_out = shortened("a" * 60 + "z" * 60, 60)
    assert left_out == 60
    assert cut.startswith("a" * 40)
    assert cut.endswith("z" * 20)
