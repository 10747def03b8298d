"""The table of an evaluation at every width: what is essential is whole, the rest is named."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence

import pytest
from markupsafe import escape
from rich.console import Console

from optim.records import Record
from optim.report import page, studies
from optim.report.tables import by_level, latency, sensitivity
from optim.report.terminal import COLUMNS, Figures, grid_of
from optim.summary import rows
from tests.optim.report.samples import record, records, travelled


def shown(found: Sequence[Record], width: int) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(Figures(rows(found)))
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_nothing_essential_is_cut(width: int) -> None:
    found = records(epochs=2, level_source="label", score_metadata={"boxed": True})
    text = shown(found, width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for row in rows(found):
        line = next(words for words in text.splitlines() if words.startswith(f"{row.method} "))
        assert f"{row.accuracy:.1f} ±{row.accuracy_sd:.1f}" in line
        assert f"{row.tokens:.0f} ±{row.tokens_sd:.0f}" in line
        assert f"{row.e3:.2f} ±{row.e3_sd:.2f}" in line
        assert f"{row.e3_lower:.2f} –" in line  # noqa: RUF001


def test_what_has_no_room_is_named() -> None:
    found = records(level_source="label")
    left_out = shown(found, 80).partition("Too narrow for: ")[2]
    assert "seconds" in left_out
    assert "95 % of A" in left_out
    assert "Too narrow" not in shown(found, 200)
    row = rows(found)[0]
    assert f"{row.accuracy_lower:.1f} – {row.accuracy_upper:.1f}" in shown(found, 200)  # noqa: RUF001


def test_no_figure_of_a_plain_table_is_cut_in_a_narrow_terminal() -> None:
    found = records(["vanilla", "planned_global_budget", "plan_and_budget_estimated"])
    for table, width in itertools.product(
        (sensitivity(found), latency(found), by_level(found)), (80, 40)
    ):
        file = io.StringIO()
        Console(file=file, width=width).print(grid_of(table), crop=False)
        text = file.getvalue()
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= 80
        figures = [f"{v:.2f}" for row in table for v in row.values() if isinstance(v, float)]
        assert all(figure in text.split() for figure in figures)


def test_planners_are_told_apart_in_a_narrow_terminal_too() -> None:
    found = records() + records(planner="openai:a-planner-with-a-long-name")
    text = shown(found, 80)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert text.count(" planned_global_budget ") == 2


def test_the_level_and_the_unboxed_share_are_told_where_they_are_known() -> None:
    plain = shown(records(["vanilla"]), 200)
    assert "level" not in plain
    assert "unboxed" not in plain
    labelled = shown(records(["cosine"], level_source="label"), 200)
    assert "label" in labelled.split()
    assert "--estimate-level" in labelled
    estimated = shown(records(["cosine"], level_source="estimated"), 200)
    assert "estimated" in estimated
    assert "--estimate-level" not in estimated
    text = shown([record("vanilla", q, score_metadata={"boxed": q > 0}) for q in range(4)], 200)
    assert "unboxed %" in text


def test_few_questions_bring_a_warning() -> None:
    assert "biased upwards" in shown(records(["vanilla"], questions=29, errors=False), 80)
    assert "biased upwards" not in shown(records(["vanilla"], questions=30, errors=False), 80)


def test_travelplanners_rates_have_columns() -> None:
    text = shown([travelled(q) for q in range(4)], 200)
    assert "delivery %" in text
    assert "75.0" in text
    assert "delivery" not in shown(records(["vanilla"]), 200)


@pytest.mark.parametrize(("n", "told"), [(29, True), (30, False)])
def test_plain_rows_say_that_the_e3_of_few_questions_is_biased(n: int, *, told: bool) -> None:
    file = io.StringIO()
    Console(file=file, width=30).print(grid_of([{"level": 1, "n": n, "E³": 2.0}]))
    assert ("biased upwards" in " ".join(file.getvalue().split())) is told


def test_several_answers_to_few_questions_do_not_hide_that_their_e3_is_biased() -> None:
    several, once = (
        grid_of(by_level(records(["vanilla"], epochs=epochs, errors=False))) for epochs in (8, 1)
    )
    assert "biased upwards" in str(several.caption)
    assert "questions" in [column.header for column in several.columns]
    assert "questions" not in [column.header for column in once.columns]


def test_rows_of_plain_values_leave_out_what_is_the_same_everywhere() -> None:
    file = io.StringIO()
    Console(file=file, width=80).print(grid_of([{"dataset": "a", "n": 1, "E³": None}]))
    assert file.getvalue().split() == ["n", "E³", "1", "–"]  # noqa: RUF001


def test_within_a_notebook_the_text_is_the_table_too(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = Figures(rows(records(["vanilla"])))
    outside = str(figures)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert str(figures) == outside


def test_the_page_has_the_columns_of_the_terminal() -> None:
    found = records(level_source="label", score_metadata={"boxed": True})
    text, html = shown(found, 300), page(studies(found))
    for column in COLUMNS:
        assert (column.short or column.head) in text
        assert f'<th scope="col">{escape(column.head)}</th>' in html
