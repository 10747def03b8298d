"""Bounds of a loss, and the fixed order of tests: how often what is proven holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim.statistics.certificate import NonInferiorityTest, Scores, order_for_testing, run_in_order
from optim.statistics.certificate import _clopper_pearson_upper as flip_bound
from optim.statistics.certificate import betting_upper_bound as loss_bound
from pb_graph.errors import InputError

RIGHT, WRONG = [1.0], [0.0]


def trial(
    name: str, reference: Scores, row: Scores, *, loss: float, confidence: float
) -> NonInferiorityTest:
    [found] = run_in_order([name], reference, {name: row}, loss=loss, confidence=confidence)
    return found


def scores(right: int, wrong: int) -> dict[str, list[float]]:
    """So many questions right, then so many wrong."""
    return {str(n): RIGHT if n < right else WRONG for n in range(right + wrong)}


@pytest.mark.parametrize(
    ("flips", "questions", "bound"), [(3, 300, 2.56), (13, 1319, 1.56), (0, 99, 2.98)]
)
def test_the_bound_of_flips_is_the_exact_binomial_one(
    flips: int, questions: int, bound: float
) -> None:
    assert 100 * flip_bound(flips, questions, 0.95) == pytest.approx(bound, abs=0.005)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=80), st.floats(0.5, 0.99))
def test_the_bound_by_betting_is_never_below_the_mean_it_bounds(
    losses: list[float], confidence: float
) -> None:
    bound = loss_bound(losses, confidence)
    assert np.mean(losses) - 1e-9 <= bound <= 1.0
    assert bound <= loss_bound(losses, (1 + confidence) / 2) + 1e-9


def test_the_bound_by_betting_holds_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    missed = sum(
        loss_bound(random.choice([-0.5, 0.0, 0.5], p=[0.1, 0.6, 0.3], size=120).tolist(), 0.9) < 0.1
        for _ in range(400)
    )
    assert 0 < missed <= 0.1 * 400 + 3 * math.sqrt(0.09 * 400)


def test_one_right_or_wrong_answer_each_is_counted_in_flips() -> None:
    found = trial("terse", scores(200, 100), scores(197, 103), loss=0.03, confidence=0.95)
    assert (found.worse, found.better, found.kind) == (3, 0, "exact")
    assert found.bound == pytest.approx(flip_bound(3, 300, 0.95))
    assert found.is_proven


def test_gains_do_not_make_up_for_flips_but_do_for_graded_scores() -> None:
    before = {str(n): [float(n % 2)] for n in range(400)}
    after = {str(n): [float(n % 2 == 0)] if n < 60 else before[str(n)] for n in range(400)}
    flipped = trial("other", before, after, loss=0.05, confidence=0.95)
    assert (flipped.loss, flipped.worse, flipped.better, flipped.is_proven) == (0.0, 30, 30, False)
    twice = trial(
        "other", {q: s * 2 for q, s in before.items()}, {q: s * 2 for q, s in after.items()},
        loss=0.05, confidence=0.95,
    )  # fmt: skip
    assert (twice.kind, twice.is_proven) == ("betting", True)


def test_the_first_failure_ends_the_testing() -> None:
    rows = {"a": scores(200, 0), "b": scores(150, 50), "c": scores(200, 0)}
    found = list(run_in_order(["a", "b", "c"], scores(200, 0), rows, loss=0.03, confidence=0.95))
    assert [(one.method, one.is_proven) for one in found] == [("a", True), ("b", False)]


def test_what_cannot_be_tested_is_refused() -> None:
    with pytest.raises(InputError, match="share no question"):
        trial("a", {"1": RIGHT}, {"2": RIGHT}, loss=0.03, confidence=0.95)


def test_candidates_are_cheaper_and_beaten_by_none_that_is_cheaper_still_dearest_first() -> None:
    rows = {
        "reference": (100.0, 0.8),
        "dear": (120.0, 0.9),
        "same cost": (100.0, 0.7),
        "good": (80.0, 0.78),
        "wasteful": (70.0, 0.4),
        "fair": (60.0, 0.6),
        "cheap": (20.0, 0.1),
    }
    assert order_for_testing(rows, "reference") == ["good", "fair", "cheap"]
