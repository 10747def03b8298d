"""Splitting turns weights and a schedule into whole tokens."""

import math
from fractions import Fraction
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.budget import Remainder, Schedule, allocate, schedule_weights, split

SCHEDULE = st.sampled_from(get_args(Schedule))
REMAINDER = st.sampled_from(get_args(Remainder))
TOTAL = st.integers(1, 10_000)
MINIMUM = st.integers(0, 200)
WHOLE_WEIGHTS = st.lists(st.integers(0, 100), min_size=1, max_size=8).filter(any)
ANY_WEIGHTS = st.lists(
    st.floats(0, allow_nan=False, allow_infinity=False), min_size=1, max_size=8
).filter(any)


def rounded_exactly(shares: list[Fraction], total: int, remainder: Remainder) -> list[int]:
    """Split in rational arithmetic, straight from the definition."""
    quotas = [share / sum(shares) * total for share in shares]
    tokens = [math.floor(quota) for quota in quotas]
    if remainder == "largest":
        by_fraction = sorted(range(len(quotas)), key=lambda j: (tokens[j] - quotas[j], j))
        for j in by_fraction[: total - sum(tokens)]:
            tokens[j] += 1
    return tokens


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("uniform", [20, 20, 20, 20, 20]),
        ("weighted", [20, 20, 20, 20, 20]),
        ("linear", [33, 27, 20, 13, 7]),
        ("polynomial", [46, 29, 16, 7, 2]),
        ("exponential", [24, 22, 20, 18, 16]),
        ("cosine", [37, 32, 20, 8, 3]),
    ],
)
def test_equal_weights_show_the_schedule(schedule: Schedule, expected: list[int]) -> None:
    assert allocate([1, 1, 1, 1, 1], 100, schedule) == expected


def test_the_papers_floor_leaves_fractions_unspent() -> None:
    assert allocate([1] * 5, 100, "linear", remainder="floor") == [33, 26, 20, 13, 6]


def test_uniform_ignores_the_weights_and_weighted_follows_them() -> None:
    assert allocate([1, 2, 5], 90, "uniform") == [30, 30, 30]
    assert allocate([1, 2, 5], 80, "weighted") == [10, 20, 50]


def test_rounding_noise_does_not_cost_a_token() -> None:
    assert allocate([0.1, 0.2, 0.3], 6, "weighted", remainder="floor") == [1, 2, 3]


def test_ties_go_to_the_earlier_step() -> None:
    assert allocate([1, 1, 1], 100, "weighted") == [34, 33, 33]
    assert allocate([1, 3], 2, "weighted") == [1, 1]
    assert allocate([1, 2], 3, "linear") == [2, 1]


@given(ANY_WEIGHTS, TOTAL, SCHEDULE, MINIMUM)
def test_shares_sum_to_the_total(
    weights: list[float], total: int, schedule: Schedule, minimum: int
) -> None:
    shares = allocate(weights, total, schedule, minimum=minimum)
    assert len(shares) == len(weights)
    assert min(shares) >= 0
    assert sum(shares) == total


@given(ANY_WEIGHTS, TOTAL, SCHEDULE, MINIMUM)
def test_flooring_leaves_less_than_one_token_per_step(
    weights: list[float], total: int, schedule: Schedule, minimum: int
) -> None:
    shares = allocate(weights, total, schedule, remainder="floor", minimum=minimum)
    assert min(shares) >= 0
    assert total - len(weights) < sum(shares) <= total


@given(
    WHOLE_WEIGHTS,
    TOTAL,
    st.sampled_from(["uniform", "weighted", "linear", "polynomial"]),
    REMAINDER,
    st.floats(1e-3, 1e3),
)
def test_shares_are_those_of_exact_arithmetic_on_any_scale(
    weights: list[int], total: int, schedule: Schedule, remainder: Remainder, factor: float
) -> None:
    prior = [Fraction(rho) for rho in schedule_weights(schedule, len(weights))]
    relative = [1] * len(weights) if schedule == "uniform" else weights
    shares = [w * rho for w, rho in zip(relative, prior, strict=True)]
    scaled = [weight * factor for weight in weights]
    expected = rounded_exactly(shares, total, remainder)
    assert allocate(scaled, total, schedule, remainder=remainder) == expected


def test_a_step_below_the_minimum_is_raised_at_the_others_expense() -> None:
    assert allocate([1] * 5, 100, "polynomial", minimum=10) == [40, 26, 14, 10, 10]
    assert allocate([1, 0, 1], 100, "weighted", minimum=10) == [45, 10, 45]


def test_raising_one_step_may_push_another_below_the_minimum() -> None:
    assert allocate([70, 21, 9], 100, "weighted", minimum=20) == [60, 20, 20]


def test_a_total_too_small_for_the_minimum_is_split_equally() -> None:
    assert allocate([9, 1, 1], 10, "weighted", minimum=24) == [4, 3, 3]
    assert allocate([1, 1, 9], 2, "weighted", minimum=24) == [0, 0, 2]


@given(ANY_WEIGHTS, TOTAL, SCHEDULE, REMAINDER, MINIMUM)
def test_no_step_gets_less_than_the_minimum_if_the_total_allows(
    weights: list[float], total: int, schedule: Schedule, remainder: Remainder, minimum: int
) -> None:
    shares = allocate(weights, total, schedule, remainder=remainder, minimum=minimum)
    assert min(shares) >= min(minimum, total // len(weights))


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        ([], "must not be empty"),
        ([0, 0.0], "must not all be zero"),
        ([1, -2], "must not be negative"),
        ([1, float("nan")], "must be a finite number"),
        ([1, "2"], "must be a finite number"),
    ],
)
def test_unusable_weights_are_refused(weights: list[Any], why: str) -> None:
    with pytest.raises(ValueError, match=f"^weights {why}"):
        allocate(weights, 100)
    with pytest.raises(ValueError, match=f"^shares {why}"):
        split(weights, 100)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("total", 0),
        ("total", 100.0),
        ("minimum", -1),
        ("schedule", "bam"),
        ("remainder", "round"),
        ("power", 0),
        ("gamma", 2),
        ("epsilon", -1),
    ],
)
def test_any_other_unusable_argument_is_refused_by_name(argument: str, value: object) -> None:
    arguments: dict[str, Any] = {"weights": [1, 2], "total": 100, argument: value}
    with pytest.raises(ValueError, match=f"^{argument} must be"):
        allocate(**arguments)


def test_weights_only_where_the_schedule_is_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="only where the cosine schedule is zero"):
        allocate([0, 0, 1], 100, "cosine", epsilon=0)
