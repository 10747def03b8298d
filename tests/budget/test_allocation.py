"""Rules give a query its total, schedules weigh positions, and splitting makes whole tokens."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pb_graph.budget import LevelTable, PerLevel, optimal_allocation, schedule_weights, split
from pb_graph.budget.allocation import LEVELS, BudgetRule, Remainder, ScheduleName
from tests.benchmarks.schedules import optimum

SCHEDULE = st.sampled_from(get_args(ScheduleName))
REMAINDER = st.sampled_from(get_args(Remainder))
TOTAL = st.integers(1, 10_000)
MINIMUM = st.integers(0, 200)
WHOLE_WEIGHTS = st.lists(st.integers(0, 100), min_size=1, max_size=8).filter(any)
ANY_WEIGHTS = st.lists(
    st.floats(0, allow_nan=False, allow_infinity=False), min_size=1, max_size=8
).filter(any)
QUERIES = st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(0.1, 8)), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("name", "weights", "shares"),
    [
        ("uniform", [1, 1, 1, 1, 1], [20, 20, 20, 20, 20]),
        ("weighted", [1, 1, 1, 1, 1], [20, 20, 20, 20, 20]),
        ("linear", [5, 4, 3, 2, 1], [33, 27, 20, 13, 7]),
        ("polynomial", [25, 16, 9, 4, 1], [46, 29, 16, 7, 2]),
        ("exponential", [1, 0.9, 0.81, 0.729, 0.6561], [24, 22, 20, 18, 16]),
        ("cosine", [1.1, 0.6 + 0.125**0.5, 0.6, 0.6 - 0.125**0.5, 0.1], [37, 32, 20, 8, 3]),
        ("cosine", [1], [100]),
    ],
)
def test_each_schedule_follows_its_formula(
    name: ScheduleName, weights: list[float], shares: list[int]
) -> None:
    found = schedule_weights(name, len(weights))
    assert found == pytest.approx(weights, rel=1e-12)
    assert split(found, 100) == shares


def test_parameters_shape_the_decay() -> None:
    assert schedule_weights("polynomial", 3, power=3) == [27, 8, 1]
    assert schedule_weights("exponential", 3, gamma=0.5) == [1, 0.5, 0.25]
    assert schedule_weights("cosine", 3, epsilon=0) == pytest.approx([1, 0.5, 0])


@given(SCHEDULE, st.integers(1, 60), st.floats(0.01, 10), st.floats(0.01, 1), st.floats(0, 1e300))
def test_weights_never_increase_nor_turn_negative(
    name: ScheduleName, m: int, power: float, gamma: float, epsilon: float
) -> None:
    weights = schedule_weights(name, m, power=power, gamma=gamma, epsilon=epsilon)
    assert len(weights) == m
    assert weights == sorted(weights, reverse=True)
    assert min(weights) >= 0
    assert weights[0] > 0


def rounded_exactly(shares: list[Fraction], total: int, remainder: Remainder) -> list[int]:
    """Split in rational arithmetic, straight from the definition."""
    quotas = [share / sum(shares) * total for share in shares]
    tokens = [math.floor(quota) for quota in quotas]
    if remainder == "largest":
        by_fraction = sorted(range(len(quotas)), key=lambda j: (tokens[j] - quotas[j], j))
        for j in by_fraction[: total - sum(tokens)]:
            tokens[j] += 1
    return tokens


@given(WHOLE_WEIGHTS, TOTAL, REMAINDER, st.floats(1e-3, 1e3))
def test_shares_are_those_of_exact_arithmetic_on_any_scale(
    weights: list[int], total: int, remainder: Remainder, factor: float
) -> None:
    expected = rounded_exactly([Fraction(weight) for weight in weights], total, remainder)
    assert split([weight * factor for weight in weights], total, remainder=remainder) == expected


@given(ANY_WEIGHTS, TOTAL, REMAINDER, MINIMUM)
def test_shares_sum_to_the_total_and_none_is_below_the_minimum_that_it_allows(
    weights: list[float], total: int, remainder: Remainder, minimum: int
) -> None:
    shares = split(weights, total, remainder=remainder, minimum=minimum)
    lost = len(weights) - 1 if remainder == "floor" else 0
    assert len(shares) == len(weights)
    assert total - lost <= sum(shares) <= total
    assert min(shares) >= min(minimum, total // len(weights))


@pytest.mark.parametrize(
    ("weights", "total", "options", "shares"),
    [
        ([5, 4, 3, 2, 1], 100, {"remainder": "floor"}, [33, 26, 20, 13, 6]),
        ([0.1, 0.2, 0.3], 6, {"remainder": "floor"}, [1, 2, 3]),
        ([1, 1, 1], 100, {}, [34, 33, 33]),
        ([1, 3], 2, {}, [1, 1]),
        ([1, 0, 1], 100, {"minimum": 10}, [45, 10, 45]),
        ([70, 21, 9], 100, {"minimum": 20}, [60, 20, 20]),
        ([9, 1, 1], 10, {"minimum": 24}, [4, 3, 3]),
    ],
    ids=[
        "the paper's floor leaves fractions unspent",
        "rounding noise does not cost a token",
        "the remainder goes to the earlier step",
        "a tie goes to the earlier step",
        "a step without weight is raised",
        "raising one step pushes another below the minimum",
        "a total too small for the minimum is split equally",
    ],
)
def test_an_example_is_split(
    weights: list[float], total: int, options: dict[str, Any], shares: list[int]
) -> None:
    assert split(weights, total, **options) == shares


@pytest.mark.parametrize("shares", [[], [0, 0.0], [1, -2], [1, float("nan")]])
def test_unusable_shares_are_refused(shares: list[float]) -> None:
    with pytest.raises(ValueError, match="shares must be finite numbers of at least 0"):
        split(shares, 100)


@given(QUERIES, st.floats(1e-2, 1e6))
def test_the_allocation_of_least_uncertainty_is_the_exact_optimum(
    query: list[tuple[float, float]], total: float
) -> None:
    c, beta = [one for one, _ in query], [one for _, one in query]
    expected = optimum(c, beta, total)
    assert optimal_allocation(c, beta, total) == pytest.approx(expected.tolist(), rel=1e-9)


@pytest.mark.parametrize(
    ("c", "beta", "total"),
    [([], [], 10), ([1, 0], [1, 1], 10), ([1], [-1], 10), ([1], [1], 0), ([1, 1], [1], 10)],
)
def test_a_model_of_uncertainty_that_is_not_positive_is_refused(
    c: list[float], beta: list[float], total: float
) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        optimal_allocation(c, beta, total)


ANY_RULE = st.one_of(
    st.builds(
        LevelTable,
        tokens=st.fixed_dictionaries({level: st.integers(1, 10_000) for level in LEVELS}),
    ),
    st.builds(PerLevel, initial=st.integers(1, 10_000), per_level=st.integers(0, 1_000)),
)
adapter: TypeAdapter[LevelTable | PerLevel] = TypeAdapter(BudgetRule)


def test_the_default_table_is_the_papers() -> None:
    assert [LevelTable().budget_for(level) for level in LEVELS] == [200, 250, 350, 450, 600]


def test_per_level_adds_the_same_for_each_level() -> None:
    assert [PerLevel(initial=100, per_level=50).budget_for(level) for level in (1, 5)] == [150, 350]


@given(ANY_RULE)
def test_the_field_rule_tells_them_apart_in_json(rule: LevelTable | PerLevel) -> None:
    assert adapter.validate_json(rule.model_dump_json()) == rule


@pytest.mark.parametrize(
    ("given_rule", "why"),
    [
        ({"rule": "level_table", "tokens": {1: 200}}, "levels 1 to 5"),
        ({"rule": "level_table", "tokens": {**dict.fromkeys(range(1, 5), 9), 5: 0}}, "tokens.5"),
        ({"rule": "per_level", "initial": 1, "per_level": 1, "level": 1}, "level"),
        ({"rule": "flat", "tokens": 10}, "level_table"),
    ],
)
def test_a_wrong_rule_is_refused_with_the_reason(given_rule: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        adapter.validate_python(given_rule)
