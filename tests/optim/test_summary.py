from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import spearmanr

from optim.records import Record
from optim.report.tables import (
    budget_grid,
    by_level,
    credits_by_position,
    latency,
    level_estimates,
    sensitivity,
)
from optim.summary import budget_use, by_position, grouped, mean_parts, rows, summarize
from tests.optim.report.samples import record, records, travelled


def test_any_field_groups_and_a_row_is_the_same_however_it_is_found() -> None:
    found = records(["vanilla", "cosine"], questions=10)
    by_both = summarize(found, ("method", "level"))
    assert list(by_both) == [(m, n) for m in ("vanilla", "cosine") for n in range(1, 6)]
    hard = [r for r in found if r.method == "cosine" and r.level == 5]
    assert by_both["cosine", 5] == rows(hard)[0]
    assert list(summarize(found).values()) == rows(found)
    assert sum(len(group) for group in grouped(found, ("question",)).values()) == len(found)


def test_intervals_hold_the_figure_and_know_their_units() -> None:
    for epochs in (1, 3):
        [row] = rows(records(["vanilla"], epochs=epochs, errors=False))
        assert row.tokens_lower is not None
        assert row.tokens_upper is not None
        assert row.tokens_lower < (row.tokens or 0) < row.tokens_upper
        assert row.accuracy_lower is not None
        assert row.accuracy_upper is not None
        assert 0 <= row.accuracy_lower < (row.accuracy or 0) < row.accuracy_upper <= 100
    [one] = rows([record("vanilla", 0)])
    assert (one.tokens_lower, one.tokens_upper) == (None, None)


def test_the_same_answers_once_more_do_not_narrow_an_interval() -> None:
    once = records(["vanilla"], errors=False)
    [one], [two] = rows(once), rows([*once, *(replace(r, epoch=2) for r in once)])
    for figure in ("accuracy", "tokens", "e3"):
        for end in ("lower", "upper"):
            name = f"{figure}_{end}"
            assert getattr(two, name) == pytest.approx(getattr(one, name))


def test_runs_give_a_standard_deviation_and_one_run_gives_none() -> None:
    found = [record("vanilla", q, e, score=s, error=None) for e, s in ((1, 1.0), (2, 0.0))
             for q in range(4)]  # fmt: skip
    [row] = rows(found)
    assert (row.runs, row.questions, row.n) == (2, 4, 8)
    assert row.accuracy_sd == pytest.approx(100 / 2**0.5)
    assert row.tokens_sd is not None
    assert row.e3_sd is not None
    [once] = rows(found[:4])
    assert (once.runs, once.accuracy_sd, once.tokens_sd, once.e3_sd) == (1, None, None, None)


def test_a_run_without_a_token_has_no_deviation_and_ends_nothing() -> None:
    [row] = rows([record("vanilla", 0), spending(0, epoch=2)])
    assert (row.runs, row.e3_sd) == (2, None)


def spending(tokens: int, **fields: Any) -> Record:  # noqa: ANN401
    account = record("vanilla", 0).report
    usage = account["usage"] | {"output_tokens": tokens, "by_node": {}}
    return record("vanilla", 0, **fields, report=account | {"usage": usage})


@pytest.mark.parametrize(
    ("sources", "level"),
    [
        (("label",), "label"),
        (("estimated", None), "estimated"),
        (("estimated", "label"), "label"),  # a label helped: that has to be said
        ((None,), None),
    ],
)
def test_a_row_says_whose_word_the_levels_are(sources: Any, level: str | None) -> None:  # noqa: ANN401
    [row] = rows([record("cosine", q, level_source=s) for q, s in enumerate(sources)])
    assert row.level == level


def test_the_unboxed_share_is_told_where_the_scorer_knows() -> None:
    boxes = [record("vanilla", q, score_metadata={"boxed": q > 0}) for q in range(4)]
    assert rows(boxes)[0].unboxed == 0.25
    assert rows(records(["vanilla"]))[0].unboxed is None


def test_travelplanners_rates_are_in_the_row_where_every_answer_was_judged() -> None:
    judged = [travelled(q) for q in range(4)]
    assert (rows(judged)[0].rates or {})["delivery"] == 0.75
    assert rows([*judged, record("vanilla", 9, dataset="travelplanner")])[0].rates is None


def test_estimated_levels_stand_against_the_labels() -> None:
    def estimated(question: int, label: int, estimate: int, **fields: Any) -> Record:  # noqa: ANN401
        account = record("cosine", question).report | {"level": estimate}
        return record("cosine", question, level=label, report=account, **fields)

    pairs = [(1, 1), (2, 3), (3, 2), (5, 5), (4, 5)]
    found = [estimated(q, *pair, level_source="estimated") for q, pair in enumerate(pairs)]
    told = estimated(9, 1, 1, level_source="label")
    (cells,) = level_estimates([*found, told])
    assert (cells["method"], cells["n"], cells["agreement_%"]) == ("cosine", 5, 40.0)
    assert cells["mean_error"] == pytest.approx(0.2)
    assert cells["mean_absolute_error"] == pytest.approx(0.6)
    assert cells["rank_correlation"] == pytest.approx(spearmanr(*zip(*pairs, strict=True))[0])
    nodes = [r.report["usage"]["by_node"]["estimate"]["output_tokens"] for r in found]
    assert cells["estimate_T"] == pytest.approx(sum(nodes) / 5)
    (same,) = level_estimates([estimated(0, 3, 3, level_source="estimated")])
    assert same["rank_correlation"] is None
    assert level_estimates([told]) == []


def test_two_solvers_with_one_planner_are_two_rows_that_name_theirs() -> None:
    slow = records(["cosine"], errors=False, model="slow")
    for one in slow:
        one.report["usage"]["seconds"] = 50.0
    both = [*records(["cosine"], errors=False), *slow]
    table = {row["model"]: row["total_s"] for row in latency(both)}
    assert table["slow"] == 50.0
    assert len(table) == 2
    assert {row["model"] for row in by_level(both)} == set(table)


def test_credits_are_told_by_number_of_steps_and_position_and_shared_plans_count_once() -> None:
    def planned(method: str, question: int, *credit: float) -> Record:
        account = record(method, question).report
        steps = [account["steps"][0] | {"credit": c, "index": i} for i, c in enumerate(credit)]
        return record(method, question, report=account | {"steps": steps})

    found = [planned(m, 0, 20, 80) for m in ("linear", "cosine")]
    found += [planned("cosine", 1, 40, 60), planned("cosine", 2, 20, 30, 50)]
    found += records(["planned_vanilla"], questions=2)  # its plan has no credits
    assert [dict(cells) for cells in credits_by_position(found)] == [
        {"dataset": "math500", "planner": found[0].planner, "steps": 2, "plans": 2,
         "step_1": 30.0, "step_2": 70.0, "step_3": None},
        {"dataset": "math500", "planner": found[0].planner, "steps": 3, "plans": 1,
         "step_1": 20.0, "step_2": 30.0, "step_3": 50.0},
    ]  # fmt: skip


def test_a_grid_of_budgets_has_two_ways() -> None:
    names = [f"cosine[{i}+{p}L]" for i in (200, 50) for p in (0, 25)]
    found = [r for name in [*names[:-1], "vanilla"] for r in records([name], questions=4)]
    figures = {row.method: row.e3 for row in rows(found)}
    assert [dict(cells) for cells in budget_grid(found)] == [
        {"dataset": "math500", "planner": found[0].planner, "method": "cosine", "B_init": initial,
         "0L": figures.get(f"cosine[{initial}+0L]"), "25L": figures.get(f"cosine[{initial}+25L]")}
        for initial in (50, 200)
    ]  # fmt: skip


def test_planners_do_not_mix_in_the_mean_budget() -> None:
    def budgeted(planner: str, budget: int) -> Record:
        account = record("cosine", 0).report | {"budget": budget}
        return record("cosine", 0, planner=planner, report=account)

    cells = sensitivity([budgeted("a", 100), budgeted("b", 300)])
    assert [row["budget"] for row in cells] == [100, 300]


def test_levels_come_easiest_first_and_without_one_last() -> None:
    found = [record("vanilla", 0, level=n) for n in (None, 5, 1)]
    assert [cells["level"] for cells in by_level(found)] == [1, 5, None]


def test_the_parts_of_the_tokens_add_up_to_t() -> None:
    for row in rows(found := records()):
        parts = mean_parts([r for r in found if r.method == row.method])
        assert sum(parts.values()) == pytest.approx(row.tokens)


def test_tokens_of_forced_steps_are_told_apart() -> None:
    stepwise = records(["stepwise"], errors=False)
    forced = sum(
        step["tokens"] or 0
        for r in stepwise
        for step in r.report["steps"]
        if step["finish"] == "forced"
    )
    assert mean_parts(stepwise)["solve forced"] == pytest.approx(forced / 30)


def test_use_is_told_by_step_where_it_is_known_else_by_question() -> None:
    unit, steps = budget_use(records(["stepwise"], errors=False))
    assert (unit, len(steps)) == ("step", 90)
    unit, whole = budget_use(records(["cosine"], errors=False))
    assert (unit, len(whole)) == ("question", 30)
    assert budget_use(records(["vanilla"])) == ("question", [])


def test_budgets_of_later_steps_are_told_by_position() -> None:
    places = by_position(records(["stepwise"], errors=False))
    assert [place[:2] for place in places] == [(1, 30), (2, 30), (3, 30)]
    assert places[0][2] > places[1][2] > places[2][2]
    assert by_position(records(["cosine"], errors=False))[0][3] is None
