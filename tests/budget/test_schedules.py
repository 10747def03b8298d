"""Schedules weigh positions."""

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.budget import Schedule, schedule_weights

NAME = st.sampled_from(get_args(Schedule))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("uniform", [1, 1, 1, 1, 1]),
        ("weighted", [1, 1, 1, 1, 1]),
        ("linear", [5, 4, 3, 2, 1]),
        ("polynomial", [25, 16, 9, 4, 1]),
        ("exponential", [1, 0.9, 0.81, 0.729, 0.6561]),
        ("cosine", [1.1, 0.6 + 0.125**0.5, 0.6, 0.6 - 0.125**0.5, 0.1]),
    ],
)
def test_each_schedule_follows_its_formula(name: Schedule, expected: list[float]) -> None:
    assert schedule_weights(name, 5) == pytest.approx(expected, rel=1e-12)


def test_parameters_shape_the_decay() -> None:
    assert schedule_weights("polynomial", 3, power=3) == [27, 8, 1]
    assert schedule_weights("exponential", 3, gamma=0.5) == [1, 0.5, 0.25]
    assert schedule_weights("cosine", 3, epsilon=0) == pytest.approx([1, 0.5, 0])


def test_a_single_step_has_cosine_weight_one() -> None:
    assert schedule_weights("cosine", 1) == [1]


@given(
    NAME,
    st.integers(1, 60),
    st.floats(0.01, 10),
    st.floats(0.01, 1),
    st.floats(0, 1e300),
)
def test_weights_never_increase_nor_turn_negative(
    name: Schedule, m: int, power: float, gamma: float, epsilon: float
) -> None:
    weights = schedule_weights(name, m, power=power, gamma=gamma, epsilon=epsilon)
    assert len(weights) == m
    assert weights == sorted(weights, reverse=True)
    assert min(weights) >= 0
    assert weights[0] > 0


def test_a_plan_has_at_least_one_step() -> None:
    with pytest.raises(ValueError, match="m must be a whole number of at least 1"):
        schedule_weights("linear", 0)


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("power", (0, 10.1, float("nan"))),
        ("gamma", (0, 1.1, "2")),
        ("epsilon", (-0.1, float("inf"))),
    ],
)
def test_a_parameter_out_of_range_is_refused_by_name(
    parameter: str, values: tuple[float, ...]
) -> None:
    for name, value in product(get_args(Schedule), values):
        with pytest.raises(ValueError, match=f"^{parameter} must be"):
            schedule_weights(name, 5, **{parameter: value})
