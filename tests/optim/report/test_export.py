from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import asdict

import pytest

from optim.report import Figure, as_csv, as_json, plot, studies
from optim.report.formatting import factor, number, p_value, shortened, span
from optim.summary import rows
from pb_graph import InputError
from tests.optim.report.samples import records, travelled


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


def test_every_figure_of_a_comparison_stands_below_its_name() -> None:
    [study] = studies(records(["global_budget", "adaptive_consistency", "worked_examples"]))
    lines = {line["method"]: line for line in csv.DictReader(io.StringIO(as_csv([study])))}
    for versus in study.versus:
        line, found = lines[versus.method], asdict(versus.comparison)  # type: ignore[arg-type]
        found |= {"p_value_holm": versus.adjusted_p}
        found |= {"accuracy_p_value_holm": versus.adjusted_accuracy_p}
        for name in found.keys() & {head.removeprefix("vs_") for head in line if "vs_" in head}:
            assert line[f"vs_{name}"] == str(found[name])
    assert any(versus.adjusted_p != versus.adjusted_accuracy_p for versus in study.versus)


def test_columns_of_earlier_versions_keep_their_place() -> None:
    [header, *_] = as_csv(studies(records())).splitlines()
    assert header.startswith(
        "dataset,method,model,planner,n,errors,accuracy,tokens,solving_tokens,e3,e3_lower,e3_upper,"
        "e3_with_errors,a_over_t,seconds,measured,baseline,vs_ratio,vs_lower,vs_upper,vs_p_value,"
        "vs_accuracy_difference,vs_accuracy_p_value,"
        "vs_accuracy_test,vs_questions,vs_p_value_holm,questions,level,unboxed,runs,"
    )


def test_travelplanners_rates_reach_json_and_csv() -> None:
    judged = [travelled(q) for q in range(4)]
    found = studies(judged)
    rates = as_json(found)["studies"][0]["rows"][0]["rates"]
    assert rates == {
        "delivery": 0.75, "commonsense_micro": 0.5, "commonsense_macro": 0.25,
        "hard_micro": 0.25, "hard_macro": 0.25, "final": 0.25,
    }  # fmt: skip
    (line,) = csv.DictReader(io.StringIO(as_csv(found)))
    assert line["rate_delivery"] == "0.75"
    (other,) = csv.DictReader(io.StringIO(as_csv(studies(records(["vanilla"])))))
    assert other["rate_delivery"] == ""


def test_a_figure_for_notebooks_brings_its_style_and_no_script() -> None:
    figure = plot(records())
    assert isinstance(figure, Figure)
    drawn = figure._repr_svg_()
    assert drawn.startswith("<svg ")
    assert 'class="pb chart"' in drawn
    assert ".pb.chart text" in drawn
    assert {r.method for r in records()} <= set(re.findall(r'class="name"[^>]*>([^<]*)<', drawn))


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
