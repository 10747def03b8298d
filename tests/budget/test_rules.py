"""Rules give a query its total."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pb_graph.budget import LEVELS, BudgetRule, LevelTable, PerLevel

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
