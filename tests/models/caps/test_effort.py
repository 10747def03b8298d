"""How much of a cap is for thinking, in tokens and in levels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.models.caps import THINKING_TOKENS, effort_level
from pb_graph.models.options import CallOptions

LEVELS = ["minimal", "low", "medium", "high"]
SWITCHABLE = ["none", "low", "medium", "high", "xhigh"]


@pytest.mark.parametrize(
    ("cap", "room"),
    [(24, 0), (64, 0), (65, 1), (200, 136), (256, 192), (600, 450), (4096, 3072), (8192, 7168)],
)
def test_thinking_gets_the_cap_minus_a_headroom(cap: int, room: int) -> None:
    assert CallOptions(cap, 1.0).thinking_room == room


@pytest.mark.parametrize(
    ("cap", "level"),
    [(100, "minimal"), (1000, "minimal"), (1364, "minimal"), (1365, "low"), (9215, "low")],
)
def test_the_level_is_the_highest_that_fits(cap: int, level: str) -> None:
    assert effort_level(LEVELS, CallOptions(cap, 1.0), default="high") == level


@pytest.mark.parametrize("cap", [100, 3000, 30_000])
def test_a_cap_that_is_no_budget_asks_for_nothing(cap: int) -> None:
    assert effort_level(LEVELS, CallOptions(cap, 1.0, thinking="free"), default="high") is None


@given(st.integers(1, 200_000), st.sampled_from(LEVELS))
def test_effort_is_never_raised(cap: int, default: str) -> None:
    level = effort_level(LEVELS, CallOptions(cap, 1.0), default=default)
    assert level is None or THINKING_TOKENS[level] < THINKING_TOKENS[default]


def test_models_that_may_not_think_unasked_are_only_ever_told_not_to() -> None:
    asked = {
        effort_level(SWITCHABLE, CallOptions(cap, 1.0)) for cap in (100, 1000, 2000, 9300, 40_000)
    }
    assert asked == {"none", None}
