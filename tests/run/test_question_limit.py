"""A question's own limit: in dollars or in all tokens as a setting, or a number of tokens."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, get_args

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from pb_graph import Budget, build_graph
from pb_graph.errors import InputError, NoAnswerError
from tests.support.chat_model import ScriptedChat, runs_on
from tests.support.graphs import CHAIN, DIAMOND, QUESTION, Way, run

PRICES = {"scripted-1": (1.0, 4.0)}
PLANNED = {"execution": "stepwise", "plan_from": 1}


def graph_of(model: ScriptedChat, limit: Any, **options: Any) -> Any:  # noqa: ANN401
    settings = {"limit": limit, **PLANNED, **options.pop("settings", {})}
    return build_graph(model, settings=settings, prices=PRICES, **options)


def paid(model: ScriptedChat) -> float:
    given = sum(len(str(m.content).split()) for call in model.calls for m in call.messages)
    return (given * 1.0 + model.output_tokens * 4.0) / 1e6


@pytest.mark.parametrize("way", get_args(Way))
def test_a_question_costs_no_more_than_its_dollars_and_the_next_one_has_as_many(way: Way) -> None:
    model = ScriptedChat(plan=CHAIN, solve=runs_on)
    graph = graph_of(model, {"usd": 0.012})
    first = run(graph, QUESTION, way)["report"]
    assert first["usage"]["cost"] == pytest.approx(paid(model))
    assert 0 < paid(model) <= 0.012
    second = run(graph, QUESTION, way)["report"]
    assert second["usage"]["cost"] == pytest.approx(first["usage"]["cost"])


def test_a_prompt_above_the_limit_is_not_asked() -> None:
    model = ScriptedChat(plan=CHAIN)
    with pytest.raises(NoAnswerError, match="tokens, input included"):
        graph_of(model, {"total_tokens": 10}).invoke(QUESTION)
    assert not model.calls


def test_a_prompt_that_fits_once_is_asked_without_a_reserve() -> None:
    def smallest(reserve: int) -> int:
        settings = {"reserve": reserve, "plan_from": None}
        for total in range(100, 3000, 100):
            # The bound of an input learns from settled calls of the same prompt and model.
            model = ScriptedChat(solve="Final answer: 42", model_name=f"model-{reserve:02}")
            asked = {"question": f"What is {reserve:02} + 1?", "level": 1}
            graph = graph_of(model, {"total_tokens": total}, settings=settings)
            with suppress(NoAnswerError):
                assert graph.invoke(asked)["answer"] == "Final answer: 42"
                return total
        raise AssertionError

    assert smallest(48) == smallest(0) > 100


def test_a_planner_without_a_price_is_named() -> None:
    planner = ScriptedChat(model_name="unknown-1")
    with pytest.raises(InputError, match="unknown-1"):
        graph_of(ScriptedChat(), {"usd": 0.01}, planner=planner).invoke(QUESTION)


def test_a_paused_question_goes_on_with_its_account_in_another_process() -> None:
    model, saver, thread = (
        ScriptedChat(plan=CHAIN, solve=runs_on),
        InMemorySaver(),
        {"thread_id": "1"},
    )
    config: Any = {"configurable": thread}
    options: dict[str, Any] = {"checkpointer": saver, "settings": {"review_plan": True}}
    graph_of(model, {"usd": 0.01}, **options).invoke(QUESTION, config)
    graph_of(model, {"usd": 0.01}, **options).invoke(Command(resume=True), config)
    assert paid(model) <= 0.01


@pytest.mark.parametrize("wrong", [{"usd": 0}, {"usd": "much"}, {"usd": 1.0, "total_tokens": 9}])
def test_other_limits_are_refused_with_an_example(wrong: Any) -> None:  # noqa: ANN401
    with pytest.raises(InputError, match=r'"usd": 0\.02'):
        graph_of(ScriptedChat(), wrong)


def test_a_budget_in_the_input_does_not_replace_the_limit() -> None:
    model = ScriptedChat(plan=CHAIN, solve=runs_on)
    out = graph_of(model, {"usd": 0.01}).invoke({**QUESTION, "budget": 50_000})
    assert 0 < paid(model) <= 0.01
    assert out["report"]["budget"] < 50_000


@pytest.mark.parametrize(
    ("limit", "unit"), [({"usd": 0.01}, "usd"), ({"total_tokens": 3000}, "tokens"), (900, "output")]
)
def test_a_reviewers_budget_does_not_remove_the_limit(limit: Any, unit: str) -> None:  # noqa: ANN401
    model = ScriptedChat(plan=CHAIN, solve=runs_on)
    config: Any = {"configurable": {"thread_id": "1"}}
    graph = graph_of(model, limit, checkpointer=InMemorySaver(), settings={"review_plan": True})
    graph.invoke(QUESTION, config)
    usage = graph.invoke(Command(resume={"budget": 20_000}), config)["report"]["usage"]
    amounts = {"usd": usage["cost"], "tokens": usage["total_tokens"]}
    most = limit if isinstance(limit, int) else max(limit.values())
    assert 0 < amounts.get(unit, usage["output_tokens"]) <= most


@pytest.mark.parametrize("way", get_args(Way))
def test_a_number_of_tokens_bounds_parallel_steps_together(way: Way) -> None:
    model = ScriptedChat(plan=DIAMOND, solve=runs_on)
    settings = {**PLANNED, "enforcement": "prompt", "budget": 5000}
    graph = build_graph(model, settings=settings, limit=1000)
    assert run(graph, QUESTION, way)["report"]["usage"]["output_tokens"] <= 1000
    assert model.output_tokens <= 1000


def test_a_budget_in_dollars_alone_prices_the_report() -> None:
    model = ScriptedChat(plan=CHAIN)
    graph = build_graph(model, limit=Budget(usd=1.0, prices=PRICES))
    assert graph.invoke(QUESTION)["report"]["usage"]["cost"] == pytest.approx(paid(model))
