"""The Budget Allocation Model, against independent optimisers."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize

from optim.bam import exact
from optim.bam.exact import FloatArray

BETA = st.floats(0.1, 8)


def queries(max_m: int = 6) -> st.SearchStrategy[tuple[FloatArray, FloatArray]]:
    """Return c and beta of one query, c over six decades."""
    return st.integers(1, max_m).flatmap(
        lambda m: st.tuples(
            arrays(np.float64, m, elements=st.floats(-3, 3)).map(lambda power: 10**power),
            arrays(np.float64, m, elements=BETA),
        )
    )


def uncertainty(c: FloatArray, beta: FloatArray, b: ArrayLike) -> float:
    return float(exact.epistemic_uncertainty(c, beta, b).sum())


def test_uncertainty_falls_as_a_power_of_the_tokens() -> None:
    assert exact.epistemic_uncertainty(8, 2, [0, 1, 2, 4]).tolist() == [np.inf, 8, 2, 0.5]


def test_utility_is_scaled_certainty() -> None:
    assert exact.utility(8, 2, 4, aleatoric=0.25, alpha=2) == pytest.approx(0.5)
    assert exact.utility(1, 1, 0) == -np.inf


def test_the_closed_form_is_the_papers() -> None:
    gain = np.array([(2 * 1) ** (1 / 2), (9 * 3) ** (1 / 4)])
    expected = 100 * gain / gain.sum()
    assert exact.closed_form_allocation([2, 9], [1, 3], 100) == pytest.approx(expected)


@given(queries(), BETA, st.floats(1e-2, 1e6))
def test_with_one_beta_the_closed_form_is_optimal(
    query: tuple[FloatArray, FloatArray], beta: float, total: float
) -> None:
    optimal = exact.optimal_allocation(query[0], beta, total)
    assert exact.closed_form_allocation(query[0], beta, total) == pytest.approx(optimal, rel=1e-9)


def test_with_different_betas_it_is_not() -> None:
    c, beta = np.array([1.0, 1.0]), np.array([1.0, 3.0])
    closed, optimal = (
        uncertainty(c, beta, solve(c, beta, 500))
        for solve in (exact.closed_form_allocation, exact.optimal_allocation)
    )
    assert closed > 1.5 * optimal


@given(queries(), st.floats(1e-2, 1e6))
def test_the_optimum_spends_the_total_and_its_last_token_is_worth_the_same_everywhere(
    query: tuple[FloatArray, FloatArray], total: float
) -> None:
    c, beta = query
    b = exact.optimal_allocation(c, beta, total)
    assert b.sum() == pytest.approx(total, rel=1e-12)
    log_worth = np.log(c * beta) - (beta + 1) * np.log(b)
    assert np.ptp(log_worth) < 1e-9


@given(queries(), st.floats(1, 1e5))
def test_the_optimum_is_where_brentq_finds_it(
    query: tuple[FloatArray, FloatArray], total: float
) -> None:
    c, beta = query

    def excess(log_lambda: float) -> float:
        log_b = (np.log(c * beta) - log_lambda) / (beta + 1)
        return float(np.logaddexp.reduce(log_b) - np.log(total))

    root = brentq(excess, -300, 300, xtol=1e-12, rtol=1e-14)
    expected = np.exp((np.log(c * beta) - root) / (beta + 1))
    assert exact.optimal_allocation(c, beta, total) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    arrays(np.float64, 4, elements=st.floats(0.5, 20)),
    arrays(np.float64, 4, elements=st.floats(1, 3)),
    st.floats(20, 200),
)
def test_a_general_optimiser_finds_nothing_better(
    c: FloatArray, beta: FloatArray, total: float
) -> None:
    found = minimize(
        lambda b: (c / b**beta).sum(),
        np.full(4, total / 4),
        method="SLSQP",
        bounds=[(1e-3, None)] * 4,
        constraints={"type": "eq", "fun": lambda b: b.sum() - total},
        options={"ftol": 1e-12, "maxiter": 200},
    )
    best = uncertainty(c, beta, exact.optimal_allocation(c, beta, total))
    assert best <= found.fun * (1 + 1e-6)
    assert best == pytest.approx(found.fun, rel=1e-3)


@settings(max_examples=60, deadline=None)
@given(queries(max_m=4), st.integers(0, 10))
def test_whole_tokens_are_the_best_of_all_whole_allocations(
    query: tuple[FloatArray, FloatArray], spare: int
) -> None:
    c, beta = query
    total = len(c) + spare
    every = np.array([b for b in product(range(1, total + 1), repeat=len(c)) if sum(b) == total])
    best = (c / every**beta).sum(axis=1).min()
    tokens = exact.optimal_allocation(c, beta, total, whole=True)
    assert tokens.sum() == total
    assert uncertainty(c, beta, tokens) == pytest.approx(best, rel=1e-12)


@given(queries(), st.integers(0, 5_000))
def test_no_whole_token_is_better_moved(query: tuple[FloatArray, FloatArray], spare: int) -> None:
    c, beta = query
    tokens = exact.optimal_allocation(c, beta, len(c) + spare, whole=True)
    assert tokens.dtype == np.int64
    assert tokens.sum() == len(c) + spare
    assert tokens.min() >= 1
    now, one_less, one_more = (
        exact.epistemic_uncertainty(c, beta, tokens + change) for change in (0, -1, 1)
    )
    gained, lost = now - one_more, one_less - now
    assert lost.min() >= gained.max() * (1 - 1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_batch_is_solved_as_its_queries_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    c, beta = rng.uniform(0.1, 10, (3, 4, 5)), rng.uniform(0.5, 4, (3, 4, 5))
    total = rng.integers(5, 600, (3, 4))
    real = exact.optimal_allocation(c, beta, total)
    whole = exact.optimal_allocation(c, beta, total, whole=True)
    for at in np.ndindex(3, 4):
        assert real[at] == pytest.approx(exact.optimal_allocation(c[at], beta[at], total[at]))
        one = exact.optimal_allocation(c[at], beta[at], total[at], whole=True)
        assert whole[at].tolist() == one.tolist()


def test_every_query_of_a_large_batch_is_solved() -> None:
    c = np.linspace(1, 2, 60_000).reshape(20_000, 3)
    expected = exact.closed_form_allocation(c, 2, 100)
    assert np.allclose(exact.optimal_allocation(c, 2, 100), expected, rtol=1e-9, atol=0)


def test_shapes_broadcast() -> None:
    assert exact.optimal_allocation([1, 2, 3], 2, [100, 200]).shape == (2, 3)
    assert exact.closed_form_allocation(np.ones((4, 1, 3)), [1, 2, 3], [100, 200]).shape == (
        4,
        2,
        3,
    )
    assert exact.optimal_allocation(np.ones((0, 3)), 1, 100).shape == (0, 3)


def test_equal_steps_share_equally_and_the_earlier_get_the_odd_tokens() -> None:
    assert exact.optimal_allocation([3, 3, 3], 2, 11, whole=True).tolist() == [4, 4, 3]
    assert exact.optimal_allocation([3, 3, 3], 2, 3, whole=True).tolist() == [1, 1, 1]


def test_extreme_parameters_neither_overflow_nor_stall() -> None:
    c, beta = [1e-300, 1.0, 1e300], [1e-3, 1.0, 1e3]
    for total in (1e-300, 1.0, 1e300):
        b = exact.optimal_allocation(c, beta, total)
        assert np.isfinite(b).all()
        assert b.sum() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("solve", [exact.closed_form_allocation, exact.optimal_allocation])
@pytest.mark.parametrize(
    ("c", "beta", "total", "why"),
    [
        ([1, 0], 1, 10, "^c must be above 0"),
        ([1, np.nan], 1, 10, "^c must be finite"),
        ([1, "a"], 1, 10, "^c must be numbers"),
        ([True, True], 1, 10, "^c must be numbers"),
        ([1, 2], [1, -1], 10, "^beta must be above 0"),
        ([1, 2], np.inf, 10, "^beta must be finite"),
        ([1, 2], 1, 0, "^total must be above 0"),
        ([1, 2], [1, 2, 3], 10, "^shapes do not fit"),
        ([[1, 2], [1, 2]], 1, [1, 2, 3], "^shapes do not fit"),
        (1, 1, 10, "^c must hold at least one sub-question"),
        ([], 1, 10, "^c must hold at least one sub-question"),
    ],
)
def test_an_unusable_argument_is_refused_by_name(
    solve: Callable[..., FloatArray], c: ArrayLike, beta: ArrayLike, total: ArrayLike, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        solve(c, beta, total)


@pytest.mark.parametrize("total", [1, 10.5, 1e12, [10, 1]])
def test_a_total_that_cannot_be_split_whole_is_refused(total: ArrayLike) -> None:
    with pytest.raises(ValueError, match=r"^total must be whole, from 2"):
        exact.optimal_allocation([1, 2], 1, total, whole=True)


def test_negative_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="b must not be negative"):
        exact.epistemic_uncertainty(1, 1, -1)
