"""Rules give a query its total."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pb_graph.budget import LEVELS, BudgetRule, Fixed, LevelTable, PerLevel

ANY_RULE = st.one_of(
    st.builds(
        LevelTable,
        tokens=st.fixed_dictionaries({level: st.integers(1, 10_000) for level in LEVELS}),
    ),
    st.builds(PerLevel, initial=st.integers(1, 10_000), per_level=st.integers(0, 1_000)),
    st.builds(Fixed, tokens=st.integers(1, 10_000)),
)
adapter: TypeAdapter[LevelTable | PerLevel | Fixed] = TypeAdapter(BudgetRule)


def test_the_default_table_is_the_papers() -> None:
    assert [LevelTable().total(level) for level in LEVELS] == [200, 250, 350, 450, 600]


def test_per_level_adds_the_same_for_each_level() -> None:
    assert [PerLevel(initial=100, per_level=50).total(level) for level in (1, 5)] == [150, 350]


def test_fixed_needs_no_level() -> None:
    assert Fixed(tokens=400).total(None) == 400
    assert [rule.needs_level for rule in (LevelTable, PerLevel, Fixed)] == [True, True, False]


@given(ANY_RULE)
def test_the_field_rule_tells_them_apart_in_json(rule: LevelTable | PerLevel | Fixed) -> None:
    assert adapter.validate_json(rule.model_dump_json()) == rule


@pytest.mark.parametrize("rule", [LevelTable(), PerLevel(initial=1, per_level=1)])
@pytest.mark.parametrize("level", [None, 0, 6])
def test_a_level_that_is_missing_or_out_of_range_is_refused(
    rule: LevelTable | PerLevel, level: int | None
) -> None:
    with pytest.raises(ValueError, match="level must be a whole number from 1 to 5"):
        rule.total(level)


@pytest.mark.parametrize(
    ("given_rule", "why"),
    [
        ({"rule": "level_table", "tokens": {1: 200}}, "levels 1 to 5"),
        ({"rule": "level_table", "tokens": {**dict.fromkeys(range(1, 5), 9), 5: 0}}, "tokens.5"),
        ({"rule": "fixed", "tokens": 0}, "tokens"),
        ({"rule": "fixed", "tokens": 10, "level": 1}, "level"),
        ({"rule": "flat", "tokens": 10}, "level_table"),
    ],
)
def test_a_wrong_rule_is_refused_with_the_reason(given_rule: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        adapter.validate_python(given_rule)
