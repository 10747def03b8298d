"""A curve is read out of records: points, totals by level, what it cost, and its bias."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optim.bam.calibrate import calibrate
from optim.bam.curve import BudgetCurve, curve_of
from optim.methods import ENDING
from optim.records import Record
from pb_graph.budget import LevelTable
from pb_graph.errors import InputError
from tests.optim.bam.test_calibrate import logged
from tests.optim.bam.test_calibrate import record as calibrated

BUDGETS = (50, 100, 200, 400)
NEEDS = {1: 40, 2: 90, 3: 90, 4: 350, 5: 10_000}


def record(
    level: int, budget: int, number: int, kind: str = "curve", *, score: float | None = -1.0
) -> Record:
    """Right as soon as the budget is what its level needs; cut and ended in 5 tokens before."""
    cut = budget < NEEDS[level]
    right = float(not cut) if score == -1.0 else score
    spent = budget - 20 if cut else NEEDS[level]
    made = calibrated(level, budget, number, right, spent + (5 if cut else 0))
    usage = made.report["usage"]
    parts = {"answer": {**usage["by_node"]["answer"], "output_tokens": spent}}
    if cut:
        parts[ENDING] = {**usage["by_node"]["answer"], "output_tokens": 5}
    made.report["usage"] = {**usage, "by_node": parts}
    return replace(made, method=f"{kind}_vanilla[{budget}+0L]")


def records(questions: int = 12, kind: str = "curve") -> list[Record]:
    return [
        record(level, budget, 100 * level + number, kind)
        for budget in BUDGETS
        for level in NEEDS
        for number in range(questions)
    ]


@pytest.fixture(scope="module")
def curve() -> BudgetCurve:
    return curve_of(records(), "vanilla")


def test_points_come_by_budget_with_what_was_cut(curve: BudgetCurve) -> None:
    assert [(p.budget, p.row.accuracy, p.cut) for p in curve.points] == [
        (50, 20.0, 0.8), (100, pytest.approx(60), 0.4), (200, pytest.approx(60), 0.4),
        (400, pytest.approx(80), 0.2),
    ]  # fmt: skip


def test_totals_are_best_by_e3_for_each_level(curve: BudgetCurve) -> None:
    assert {t.level: t.budget for t in curve.levels} == {1: 50, 2: 100, 3: 100, 4: 400, 5: 50}
    assert curve.totals == LevelTable(tokens={1: 50, 2: 100, 3: 100, 4: 400, 5: 50})
    assert all(total.own for total in curve.levels)
    assert curve.to_dict()["totals"]["tokens"]["4"] == 400


def test_totals_can_keep_a_share_of_the_accuracy() -> None:
    assert [t.budget for t in curve_of(records(), "vanilla", 1.0).levels] == [50, 100, 100, 400, 50]
    few = curve_of(records(questions=5), "vanilla", 0.7)
    assert [(t.budget, t.own, t.questions) for t in few.levels] == [(100, False, 5)] * 5


def test_the_share_is_of_the_accuracy_at_the_largest_budget_also_where_less_is_better() -> None:
    right = {50: 6, 100: 12, 200: 9, 400: 6}
    found = [
        record(level, budget, 100 * level + number, score=float(number < many))
        for budget, many in right.items()
        for level in NEEDS
        for number in range(12)
    ]
    assert [total.budget for total in curve_of(found, "vanilla", 1.0).levels] == [50] * 5


def test_it_cost_the_longest_answer_and_the_endings(curve: BudgetCurve) -> None:
    endings = 5 * 12 * (4 + 2 + 2 + 1)
    longest = 12 * (40 + 90 + 90 + 350 + 380)
    assert curve.paid == longest + endings
    assert curve.apart == sum(r.tokens for r in records())
    assert curve.paid < curve.apart


def test_it_is_compared_with_runs_of_its_own_question_by_question() -> None:
    other = [
        record(level, 100, 100 * level + number, "separate", score=float(level in {1, 2}))
        for level in NEEDS
        for number in range(12)
    ]
    (check,) = curve_of([*records(), *other], "vanilla").checks
    assert (check.budget, check.kind, check.comparison.questions) == (100, "separate", 60)
    assert check.comparison.accuracy_difference == pytest.approx(20)
    assert (check.comparison.accuracy_lower or 0) < 20 < (check.comparison.accuracy_upper or 0)


def test_calibrate_takes_a_curve_as_it_is() -> None:
    grid = logged(150)
    cut = [replace(r, method=r.method.replace("global_budget", "curve_vanilla")) for r in grid]
    assert calibrate(cut).to_dict() == calibrate(grid).to_dict()


def test_where_nothing_is_right_no_total_is_better_than_another() -> None:
    found = curve_of([record(5, b, n) for b in BUDGETS for n in range(12)], "vanilla")
    assert (found.levels, found.totals, found.to_dict()["totals"]) == ([], None, None)


def test_what_is_no_curve_is_refused() -> None:
    with pytest.raises(InputError, match="no answer of a curve of 'cosine'"):
        curve_of(records(), "cosine")
    with pytest.raises(InputError, match="a share of the accuracy"):
        curve_of(records(), "vanilla", 95)
