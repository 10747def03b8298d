"""Figures of answers: what counts, what is left out, and what is compared with what."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from optim.e3 import e3
from optim.records import Record
from optim.reporting import tables
from optim.reporting.formatting import remarks
from optim.reporting.tables import answers, figures, paired, paper_figures, paper_notes, to_rows
from pb_graph.budget.bill import Bill
from pb_graph.errors import InputError
from tests.optim.reporting.samples import record, records


def row_of(found: list[Record], **options: Any) -> dict[str, Any]:  # noqa: ANN401
    [row] = to_rows(figures(answers(found, **options)))
    return row


def test_answers_without_any_score_have_no_figures() -> None:
    row = row_of([record("vanilla", 0, score=None, error="HTTP 500")])
    assert (row["n"], row["accuracy"], row["e3"], row["tokens"]) == (0, None, None, None)
    assert figures(answers([])).empty


def test_answers_to_one_question_are_one_cluster_and_runs_have_a_spread() -> None:
    once, thrice = records(["vanilla"], errors=False), records(["vanilla"], epochs=3, errors=False)
    copies = [record("vanilla", q, e, score=1.0) for q in range(5) for e in (1, 2, 3)]
    assert row_of(thrice)["questions"] == 30
    assert row_of(thrice)["accuracy_sd"] > 0
    assert row_of(once)["accuracy_sd"] is None
    ends = ("accuracy_lower", "accuracy_upper")
    alone = row_of([one for one in copies if one.epoch == 1])
    assert [row_of(copies)[end] for end in ends] == pytest.approx([alone[end] for end in ends])


@pytest.mark.parametrize(
    ("prices", "model", "unit", "money"),
    [
        ("auto", "local:smollm2-135m", "units", 150 + 50 + 4 * 40),
        ("auto", "openai:gpt-5-mini", "US $", 150 * 0.25 / 1e3 + 50 * 0.025 / 1e3 + 40 * 2 / 1e3),
        ({"my:model": (1.0, 10.0, 0.5)}, "my:model", "US $", 0.15 + 0.025 + 0.4),
        ({"my:model": (1.0, 10.0, 0.5)}, "my:other", "units", 150 + 50 + 4 * 40),
    ],
)
def test_money_counts_prompt_cached_and_completion_tokens(
    prices: Any,  # noqa: ANN401
    model: str,
    unit: str,
    money: float,
) -> None:
    one = record("vanilla", 0, model=model, planner=model, score=1.0)
    usage: Any = one.report["usage"]
    for counts in (usage, usage["by_node"]["answer"]):
        counts.update(Bill(input=200, cached=50, output=40).usage())
    row = row_of([one], prices=prices)
    assert row["money_unit"].startswith(unit)
    assert row["money"] == pytest.approx(money)
    assert (row["input_tokens"], row["cached_tokens"]) == (200, 50)


def test_a_plan_costs_what_the_planner_costs() -> None:
    one = record("planned_vanilla", 0, model="a:b", planner="c:d", score=1.0)
    prices = {"a:b": (0.0, 0.0, 0.0), "c:d": (0.0, 1.0, 0.0)}
    planned = one.report["usage"]["by_node"]["plan"]["output_tokens"]
    assert row_of([one], prices=prices)["money"] == pytest.approx(planned / 1000)
    for part in one.report["usage"]["by_node"].values():
        part["by_model"] = {"b": Bill().usage()}  # a method that asks its own model for the plan
    assert row_of([one], prices=prices)["money"] == 0


def test_methods_without_a_shared_question_are_not_compared() -> None:
    found = answers([record("vanilla", 0, score=1.0), record("cosine", 1, score=1.0)])
    assert "share no question" in paired(found, "vanilla").reason[0]


def test_the_baseline_is_vanilla_else_the_global_budget_else_the_first() -> None:
    def chosen(*methods: str) -> str:
        return tables.choose_baseline(answers(records(methods, questions=1)))

    assert chosen("cosine", "global_budget", "vanilla") == "vanilla"
    assert chosen("cosine", "global_budget") == "global_budget"
    assert chosen("cosine", "linear") == "cosine"
    with pytest.raises(InputError, match="no baseline named 'best'; available: cosine"):
        tables.choose_baseline(answers(records(["cosine"])), "best")


def test_parts_of_the_tokens_add_up_to_t() -> None:
    found = records(["stepwise"])
    for one in found:  # a node of a method's own
        one.report["usage"]["by_node"]["probe"] = one.report["usage"]["by_node"].pop("synthesize")
    table = answers(found)
    assert tables.token_parts(table).tokens.sum() == pytest.approx(figures(table).tokens[0])


def test_a_grid_of_budgets_keeps_two_models_apart() -> None:
    names = ["cosine[100+0L]", "cosine[100+50L]", "cosine[50+0L]"]
    found = [one for model in ("a", "b") for one in records(names, model=model)]
    grid = tables.budget_grid(answers(found))
    assert list(grid.index.get_level_values("initial")) == [50, 100, 50, 100]
    assert list(grid.columns) == [0, 50]
    assert pd.isna(grid.loc[(slice(None), "a", slice(None), "cosine", 50), 50].iloc[0])


def test_a_method_whose_plans_were_not_found_says_so() -> None:
    found, lost = record("weighted", 0), record("weighted", 1)
    lost.report["steps"] = lost.report["steps"][:1]
    lost.report["warnings"] = [{"code": "single_step", "message": "no plan"}]
    table = figures(answers([found, lost, record("vanilla", 0)]))
    assert table.set_index("method").planned.to_dict() == {"weighted": 1, "vanilla": 0}
    (note,) = [note for note in remarks(table) if "planned" in note]
    assert note.startswith("weighted: planned 1 of 2;")


KEY = ["dataset", "method", "model"]
# The main table prints 0.103, the paper's own A/T table 0.104: 11.66² / 1306.54 is 0.10406.
MISPRINTED = ("TravelPlanner", "linear", "o4-mini")


def test_there_are_240_different_rows_of_ten_methods() -> None:
    rows = paper_figures()
    assert len(rows[["planner", *KEY]].drop_duplicates()) == len(rows) == 240
    assert rows.method.nunique() == 10
    assert [len(paper_figures("rows", name)) for name in ("math500", "gsm8k")] == [80, 0]


@pytest.mark.parametrize("table", ["rows", "certaindex"])
def test_e3_is_the_printed_figure(table: str) -> None:
    for row in paper_figures(table).itertuples():  # type: ignore[arg-type]
        digits = max(2, len(str(row.e3).partition(".")[2]))
        near = 0.0011 if (row.dataset, row.method, row.model) == MISPRINTED else 0.501 * 10**-digits
        assert e3([row.score / 100], [row.tokens]) == pytest.approx(row.e3, abs=near), row


def test_nine_of_120_cells_of_the_second_table_contradict_the_first() -> None:
    cells = paper_figures("a_over_t")
    main = paper_figures().query("planner == 'Llama-3.1-8B'")
    both = cells.merge(main, on=KEY, suffixes=("", "_main"))
    assert len(cells) == len(both) == 120
    assert ((both.e3 - both.e3_main).abs() > 0.005).sum() == 9
    assert any("9 of the 120" in note for note in paper_notes())
    agree = both[(both.e3 - both.e3_main).abs() <= 0.005]
    for row in agree.itertuples():
        now = 100 * row.score / row.tokens
        assert now == pytest.approx(row.a_over_t, abs=0.03), row


def test_latency_and_budgets_are_those_of_math500() -> None:
    assert [len(paper_figures(n, "math500")) for n in ("latency", "budget_cells")] == [9, 20]
    assert paper_figures("latency", "travelplanner").empty
