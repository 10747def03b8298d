"""The fit of a power law to counts, against known truths and an independent optimiser."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize

from optim.bam.power_law import BETA_RANGE, Curve, error_chance, fit_curve
from optim.statistics.checks import Floats
from pb_graph import InputError

BUDGETS = (25.0, 50.0, 100.0, 200.0, 400.0, 800.0)
TRUTHS = [(40.0, 1.0, 0.1), (8.0, 0.6, 0.05), (3000.0, 1.8, 0.2), (2.0, 0.5, 0.0)]


def wrong(c: float, beta: float, aleatoric: float) -> Floats:
    return error_chance(c / np.array(BUDGETS) ** beta, np.array(aleatoric))


def counts(truth: tuple[float, float, float], n: int, seed: int = 0) -> list[float]:
    rng = np.random.default_rng(seed)
    return [float(right) for right in rng.binomial(n, 1 - wrong(*truth))]


def fitted(right: Sequence[float], n: float, **options: float) -> Curve:
    return fit_curve(BUDGETS, [n] * len(BUDGETS), right, **options)


def log_likelihood(c: float, beta: float, aleatoric: float, right: Floats, n: float) -> float:
    error = wrong(c, beta, aleatoric)
    return float((right * np.log1p(-error) + (n - right) * np.log(error)).sum())


@pytest.mark.parametrize("truth", TRUTHS)
def test_counts_without_noise_give_their_parameters_back(truth: tuple[float, float, float]) -> None:
    n = 1e5
    curve = fitted(n * (1 - wrong(*truth)), n)
    assert curve.identified
    assert curve.c.value == pytest.approx(truth[0], rel=0.01)
    assert curve.beta.value == pytest.approx(truth[1], rel=0.01)
    assert curve.aleatoric.value == pytest.approx(truth[2], abs=0.005)
    for tokens, error in zip(BUDGETS, wrong(*truth), strict=True):
        assert curve.accuracy(tokens) == pytest.approx(1 - error, abs=1e-3)


@pytest.mark.parametrize("n", [200, 4000, 1_000_000])
@pytest.mark.parametrize("truth", TRUTHS[:3])
def test_intervals_hold_the_truth_and_shrink(truth: tuple[float, float, float], n: int) -> None:
    # 99.9 %: of these nine draws none should miss.
    curve = fitted(counts(truth, n), n, confidence=0.999)
    for found, true in zip((curve.c, curve.beta, curve.aleatoric), truth, strict=True):
        assert found.lower <= true <= found.upper
        assert found.lower <= found.value <= found.upper
    more = fitted(counts(truth, 16 * n), 16 * n, confidence=0.999)
    width, less = (math.log(c.beta.upper / c.beta.lower) for c in (curve, more))
    assert less < 0.6 * width


@settings(max_examples=15)
@given(
    st.floats(0.3, 2.5), st.floats(0.02, 0.9), st.floats(0, 0.4), st.integers(5, 500),
    st.integers(0, 99),
)  # fmt: skip
def test_nothing_is_likelier_than_what_is_fitted(
    beta: float, middle: float, aleatoric: float, n: int, seed: int
) -> None:
    c = middle * 141.4**beta
    right = counts((c, beta, aleatoric), n, seed)
    curve, truth = fitted(right, n), (c, beta, aleatoric)
    best = log_likelihood(
        curve.c.value, curve.beta.value, curve.aleatoric.value, np.array(right), n
    )  # fmt: skip
    assert best >= log_likelihood(*truth, np.array(right), n) - 1e-6
    assert BETA_RANGE[0] <= curve.beta.lower <= curve.beta.value * (1 + 1e-9)
    assert curve.beta.value <= curve.beta.upper * (1 + 1e-9)


@pytest.mark.parametrize("n", [300, 20_000])
@pytest.mark.parametrize("truth", TRUTHS[:2])
def test_an_interval_is_that_of_the_profile_likelihood(
    truth: tuple[float, float, float], n: int
) -> None:
    right = np.array(counts(truth, n, seed=1))
    middle = float(np.exp(np.log(BUDGETS).mean()))

    def profile(log_beta: float) -> float:
        """The greatest likelihood that this beta allows."""

        def lost(x: Floats) -> float:
            beta = math.exp(log_beta)
            return -log_likelihood(math.exp(x[0]) * middle**beta, beta, abs(x[1]), right, n)

        starts = [(math.log(u), a) for u in (0.05, 0.2, 0.5) for a in (0.01, 0.1)]
        options = {"xatol": 1e-9, "fatol": 1e-9, "maxiter": 2000}
        runs = [minimize(lost, s, method="Nelder-Mead", options=options) for s in starts]
        return -min(float(run.fun) for run in runs)

    curve = fitted(right.tolist(), n)
    found = curve.beta
    best = log_likelihood(curve.c.value, found.value, curve.aleatoric.value, right, n)
    for end, beyond in ((found.lower, found.lower / 1.5), (found.upper, found.upper * 1.5)):
        exact = brentq(
            lambda x: 2 * (best - profile(x)) - 3.841459,
            math.log(found.value), math.log(beyond), xtol=1e-4,
        )  # fmt: skip
        half = abs(math.log(end / found.value))
        assert math.log(end) == pytest.approx(exact, abs=0.06 * half)


def test_another_unit_of_tokens_changes_c_alone() -> None:
    right = counts(TRUTHS[0], 500)
    plain = fitted(right, 500)
    scaled = fit_curve([10 * b for b in BUDGETS], [500] * 6, right)
    assert scaled.beta.value == pytest.approx(plain.beta.value, rel=1e-3)
    assert scaled.c.value == pytest.approx(plain.c.value * 10**plain.beta.value, rel=1e-2)


@pytest.mark.parametrize(
    "right",
    [
        pytest.param([24, 24, 24, 24, 24, 24], id="flat"),
        pytest.param([40, 40, 40, 40, 40, 40], id="all right"),
        pytest.param([0, 0, 0, 0, 0, 0], id="all wrong"),
        pytest.param([35, 30, 25, 20, 15, 10], id="falling"),
        pytest.param([0, 0, 0, 40, 40, 40], id="a step"),
    ],
)
def test_what_answers_do_not_tell_is_not_identified(right: list[float]) -> None:
    curve = fitted(right, 40)
    assert not curve.identified
    assert curve.beta.upper > 3 * curve.beta.lower / 2


def test_few_answers_make_wide_intervals() -> None:
    few, many = (fitted([n * p for p in (0.1, 0.4, 0.6, 0.7, 0.75, 0.78)], n) for n in (4, 400))
    assert few.beta.lower < many.beta.lower < many.beta.upper < few.beta.upper
    assert not few.identified
    assert many.identified


def test_a_known_floor_is_kept_and_saves_a_budget() -> None:
    curve = fit_curve([50, 400], [200, 200], [90, 170], aleatoric=0.05)
    assert curve.identified
    floor = curve.aleatoric
    assert floor.lower == floor.value == floor.upper == pytest.approx(0.05)
    # Two parameters through two points: exactly so.
    beta = math.log(((200 - 90) / 200 - 0.05) / (30 / 200 - 0.05)) / math.log(8)
    assert curve.beta.value == pytest.approx(beta, rel=1e-4)


def test_one_lucky_guess_does_not_outweigh_all_others() -> None:
    right = [4000 * (1 - error) for error in wrong(3000, 1.8, 0.05)]
    lucky = [right[0] + 1, *right[1:]]
    assert fitted(lucky, 4000).beta.value == pytest.approx(fitted(right, 4000).beta.value, rel=0.03)


@pytest.mark.parametrize(
    ("arguments", "options", "complaint"),
    [
        (([50], [10], [5]), {}, "1 different budgets cannot tell 3 parameters"),
        (([50, 90], [10, 10], [5, 6]), {}, "2 different budgets cannot tell 3"),
        (([50], [10], [5]), {"aleatoric": 0.1}, "1 different budgets cannot tell 2"),
        (([50, 50, 90], [9, 9, 9], [5, 5, 5]), {}, "is there twice"),
        (([50, 60], [9, 9, 9], [5, 5, 5]), {}, "of each one"),
        (([50, 60, 70], [9, 9, 9], [5, 5, 10]), {}, "how many were right"),
        (([50, 60, 70], [9, 9, 0], [5, 5, 0]), {}, "above 0"),
        (([50, 60, 0], [9, 9, 9], [5, 5, 5]), {}, "above 0"),
        (([50, 60, 70], [9, 9, 9], [5, 5, math.nan]), {}, "how many were right"),
        (([50, 60, 70], [9, 9, 9], [5, 5, 5]), {"aleatoric": 1.0}, "between 0 and 0.99"),
        (([50, 60, 70], [9, 9, 9], [5, 5, 5]), {"confidence": 1.0}, "confidence lies between"),
    ],
)
def test_what_cannot_be_fitted_is_refused(
    arguments: tuple[list[float], list[float], list[float]],
    options: dict[str, float],
    complaint: str,
) -> None:
    with pytest.raises(InputError, match=complaint):
        fit_curve(*arguments, **options)
