"""A hard total of a query holds whatever the model does, and whatever the method."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from pb_graph import NoAnswerError, Settings
from pb_graph.budget.rules import LEVELS, PerLevel
from pb_graph.errors import InputError
from pb_graph.serve.budget import LEAST, within_total
from pb_graph.settings import choices
from tests.support.chat_model import ScriptedChat, runs_on
from tests.support.graphs import CHAIN, DIAMOND, QUESTION, graph_of

PLANNERS: list[dict[str, Any]] = [{"plan": CHAIN}, {"plan": DIAMOND}, {"planner": runs_on}]


@examples(max_examples=40)
@given(
    total=st.integers(LEAST, 2000),
    method=st.sampled_from(choices("method")),
    execution=st.sampled_from(choices("execution")),
    planning=st.sampled_from(choices("planning")),
    synthesis=st.sampled_from(choices("synthesis")),
    enforcement=st.sampled_from(choices("enforcement")),
    planner=st.sampled_from(PLANNERS),
)
def test_no_query_costs_more(total: int, planner: dict[str, Any], **named: str) -> None:
    settings = within_total(Settings.read(named), total)
    model = ScriptedChat(solve=runs_on, **planner)
    with suppress(NoAnswerError):
        graph_of(model, **dict(settings)).invoke(QUESTION)
    assert model.output_tokens <= total


def test_a_total_only_lowers() -> None:
    rule = PerLevel(initial=100, per_level=100)
    lowered = within_total(Settings(method="global_budget", budget=rule, planner_cap=50), 400)
    assert [lowered.budget_rule.total(level) for level in LEVELS] == [200, 300, 300, 300, 300]
    assert within_total(Settings(method="vanilla", cutoff=99), 400).cutoff == 99
    assert within_total(Settings(method="vanilla"), 400).cutoff == 400


@pytest.mark.parametrize("method", choices("method"))
def test_a_total_that_is_never_reached_changes_no_budget(method: str) -> None:
    settings = Settings.read({"method": method})
    ample = within_total(settings, 100_000)
    assert [ample.budget_rule.total(level) for level in LEVELS] == [
        settings.budget_rule.total(level) for level in LEVELS
    ]
    assert (ample.cutoff, ample.planner_cap) == (settings.cutoff, settings.planner_cap)


def test_a_total_too_small_for_any_method_is_refused() -> None:
    with pytest.raises(InputError, match="at least 16"):
        within_total(Settings(), LEAST - 1)
