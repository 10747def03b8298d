"""Settings: every choice is checked when it is made, and survives the trip through the state."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from pb_graph import Context, InputError, Settings
from pb_graph.budget import LevelTable, PerLevel
from tests.support import worlds


@pytest.mark.parametrize(
    ("chosen", "complaint"),
    [
        ({"methd": "vanilla"}, "methd"),
        ({"method": "vanila"}, "no method 'vanila'; available: .*did you mean 'vanilla'"),
        ({"budget": 0}, "at least 1"),
        ({"schedule": {"name": "polynomial", "power": 0}}, "greater than 0"),
        ({"schedule": {"name": "bam", "c": {1: 1.0}}}, "levels 1 to 5"),
    ],
    ids=str,
)
def test_what_is_out_of_range_is_refused_with_the_range(
    chosen: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Settings(**chosen)


@pytest.mark.parametrize("rule", [{"rule": "flat", "tokens": 300}, "400"], ids=str)
def test_what_is_no_budget_is_refused_in_one_sentence(rule: object) -> None:
    with pytest.raises(InputError, match=r"^budget: a budget is a whole number of tokens[^;]*$"):
        Settings.read({"budget": rule})


class TestDomains:
    def test_the_style_depends_on_the_domain(self) -> None:
        assert Settings().solver_style("Mathematics", 2) == "concise"
        assert Settings(style="auto").solver_style("arithmetic", 3) == "calculation"
        assert Settings(style="calculation", execution="stepwise").solver_style("any", 4) == "draft"
        assert Settings(style="prose").solver_style("arithmetic", 3) == "prose"

    def test_an_instruction_is_followed_at_once(self) -> None:
        chosen = Settings().for_domain("instruction following")
        assert (chosen.style, chosen.plan_from, chosen.needs_level) == ("answer", None, False)
        assert Settings(budget=99).for_domain("instruction following").budget == 99

    @pytest.mark.parametrize(
        "chosen", [Settings(style="prose"), Settings(plan_from=4), Settings(method="vanilla")]
    )
    def test_a_choice_of_the_user_is_kept(self, chosen: Settings) -> None:
        assert chosen.for_domain("instruction following") == chosen


@given(worlds.settings())
def test_settings_survive_the_trip_through_the_state(chosen: dict[str, Any]) -> None:
    settings = Settings(**chosen)
    stored = json.loads(json.dumps(settings.model_dump(mode="json")))
    assert Settings.model_validate(stored) == settings


def test_settings_of_a_run_replace_only_what_they_set_themselves() -> None:
    base = Settings(method="vanilla", cutoff=77, budget=100)
    rule = PerLevel(initial=10, per_level=5)
    assert base.merged_with(Settings(budget=rule)) == base.model_copy(update={"budget": rule})
    assert base.merged_with(None) is base
    merged = Settings().merged_with(Settings(timeout=60))
    assert merged.for_domain("instruction following").style == "answer"  # still a default


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"settings": {"methd": "vanilla"}}, "unknown setting methd; available: method, "),
        ({"settings": "cosine"}, "a valid dictionary or instance of Settings"),
    ],
    ids=str,
)
def test_a_context_that_cannot_be_used_says_what_can(given: Any, complaint: str) -> None:  # noqa: ANN401
    with pytest.raises(InputError, match=complaint):
        Context.resolve(Context(**given))


OWN = Context(settings=Settings(budget=222))


@pytest.mark.parametrize(
    ("found", "context"),
    [
        (OWN, OWN),
        ({"settings": "the host's own"}, Context()),
        ({"plan_and_budget": {"settings": {"budget": 222}}}, OWN),
        (SimpleNamespace(user="someone", plan_and_budget=None), Context()),
        (SimpleNamespace(plan_and_budget={"settings": {"budget": 222}}), OWN),
    ],
    ids=str,
)
def test_our_context_is_found_in_that_of_a_host(found: object, context: Context) -> None:
    assert Context.resolve(found) == context


@pytest.mark.parametrize("wrong", [Settings(), {"plan_and_budget": 7}])
def test_what_stands_in_the_place_of_a_context_is_not_ignored(wrong: object) -> None:
    with pytest.raises(InputError, match=r"Give settings as context=Context\(settings="):
        Context.resolve(wrong)


def test_a_budget_that_is_set_bounds_every_method_that_asks_once() -> None:
    assert Settings(method="vanilla", budget=300).budget_for(3) == 300
    assert not Settings(method="vanilla").has_budget
    assert Settings(method="vanilla", budget=300).has_budget
    assert Settings(method="vanilla", budget=LevelTable()).needs_level
    assert not Settings(method="vanilla", budget=300, enforcement="prompt").has_budget
