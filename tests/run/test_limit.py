"""A question's limit: its own, in any unit, or that of a shared budget that may pause it."""
# ruff: noqa: ANN401 -- graphs and limits of any kind

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from pb_graph import Budget, BudgetUsedUpError, Context, InputError, NoAnswerError, build_graph
from tests.support.agents import THREAD
from tests.support.chat_model import ScriptedChat, runs_on
from tests.support.graphs import CHAIN, DIAMOND, QUESTION, codes, run

PRICES = {"scripted-1": (1.0, 4.0)}
PLANNED = {"execution": "stepwise", "plan_from": 1}


def graph_within(model: ScriptedChat, limit: Any, **options: Any) -> Any:
    settings = {"limit": limit, **PLANNED, **options.pop("settings", {})}
    return build_graph(model, settings=settings, prices=PRICES, **options)


def paid(model: ScriptedChat) -> float:
    given = sum(len(str(m.content).split()) for call in model.calls for m in call.messages)
    return (given * 1.0 + model.output_tokens * 4.0) / 1e6


def test_a_question_costs_no_more_than_its_dollars_and_the_next_one_has_as_many() -> None:
    model = ScriptedChat(plan=CHAIN, solve=runs_on)
    graph = graph_within(model, {"usd": 0.012})
    first = run(graph)["report"]
    assert first["usage"]["cost"] == pytest.approx(paid(model))
    assert 0 < paid(model) <= 0.012
    second = run(graph)["report"]
    assert second["usage"]["cost"] == pytest.approx(first["usage"]["cost"])


def test_a_prompt_above_the_limit_is_not_asked() -> None:
    model = ScriptedChat(plan=CHAIN)
    with pytest.raises(NoAnswerError, match="tokens, input included"):
        graph_within(model, {"total_tokens": 10}).invoke(QUESTION)
    assert not model.calls


def test_a_prompt_that_fits_once_is_asked_without_a_reserve() -> None:
    def smallest(reserve: int) -> int:
        settings = {"reserve": reserve, "plan_from": None}
        for total in range(100, 3000, 100):
            # The bound of an input learns from settled calls of the same prompt and model.
            model = ScriptedChat(solve="Final answer: 42", model_name=f"model-{reserve:02}")
            asked = {"question": f"What is {reserve:02} + 1?", "level": 1}
            graph = graph_within(model, {"total_tokens": total}, settings=settings)
            with suppress(NoAnswerError):
                assert graph.invoke(asked)["answer"] == "Final answer: 42"
                return total
        raise AssertionError

    assert smallest(48) == smallest(0) > 100


def test_a_planner_without_a_price_is_named() -> None:
    planner = ScriptedChat(model_name="unknown-1")
    with pytest.raises(InputError, match="unknown-1"):
        graph_within(ScriptedChat(), {"usd": 0.01}, planner=planner).invoke(QUESTION)


def test_a_paused_question_goes_on_with_its_account_in_another_process() -> None:
    model = ScriptedChat(plan=CHAIN, solve=runs_on)
    options: Any = {"checkpointer": InMemorySaver(), "settings": {"review_plan": True}}
    for given in (QUESTION, Command(resume=True)):
        graph_within(model, {"usd": 0.01}, **options).invoke(given, THREAD)
    assert paid(model) <= 0.01


@pytest.mark.parametrize("wrong", [{"usd": 0}, {"usd": "much"}, {"usd": 1.0, "total_tokens": 9}])
def test_other_limits_are_refused_with_an_example(wrong: Any) -> None:
    with pytest.raises(InputError, match=r'"usd": 0\.02'):
        graph_within(ScriptedChat(), wrong)


def test_a_budget_in_the_input_does_not_replace_the_limit() -> None:
    model = ScriptedChat(plan=CHAIN, solve=runs_on)
    out = graph_within(model, {"usd": 0.01}).invoke({**QUESTION, "budget": 50_000})
    assert 0 < paid(model) <= 0.01
    assert out["report"]["budget"] < 50_000


@pytest.mark.parametrize(
    ("limit", "unit"), [({"usd": 0.01}, "usd"), ({"total_tokens": 3000}, "tokens"), (900, "output")]
)
def test_a_reviewers_budget_does_not_remove_the_limit(limit: Any, unit: str) -> None:
    model = ScriptedChat(plan=CHAIN, solve=runs_on)
    graph = graph_within(model, limit, checkpointer=InMemorySaver(), settings={"review_plan": True})
    graph.invoke(QUESTION, THREAD)
    usage = graph.invoke(Command(resume={"budget": 20_000}), THREAD)["report"]["usage"]
    amounts = {"usd": usage["cost"], "tokens": usage["total_tokens"]}
    most = limit if isinstance(limit, int) else max(limit.values())
    assert 0 < amounts.get(unit, usage["output_tokens"]) <= most


def test_a_number_of_tokens_bounds_parallel_steps_together() -> None:
    model = ScriptedChat(plan=DIAMOND, solve=runs_on)
    settings = {**PLANNED, "enforcement": "prompt", "budget": 5000}
    graph = build_graph(model, settings=settings, limit=1000)
    assert run(graph)["report"]["usage"]["output_tokens"] <= 1000
    assert model.output_tokens <= 1000


def test_a_budget_in_dollars_alone_prices_the_report() -> None:
    model = ScriptedChat(plan=CHAIN)
    graph = build_graph(model, limit=Budget(usd=1.0, prices=PRICES))
    assert graph.invoke(QUESTION)["report"]["usage"]["cost"] == pytest.approx(paid(model))


def pausing(model: ScriptedChat, budget: Budget, saver: Any, on_used_up: Any = "pause") -> Any:
    options: Any = {"checkpointer": saver, "on_used_up": on_used_up}
    return build_graph(model, settings=PLANNED | {"budget": 2000}, limit=budget, **options)


class TestPausing:
    @pytest.mark.parametrize("action", ["finish", "stop"])
    def test_a_question_with_too_little_left_pauses_before_it_is_solved(self, action: str) -> None:
        model, budget = ScriptedChat(plan=CHAIN), Budget(1500)
        graph = pausing(model, budget, InMemorySaver())
        value = graph.invoke(QUESTION, THREAD)["__interrupt__"][0].value
        assert value["unit"] == "completion tokens"
        assert value["asked"] == QUESTION["question"]
        assert value["spent"] == budget.spent == model.output_tokens > 0
        assert not model.solving()
        answer, planned = Command(resume={"action": action}), len(model.calls)
        if action == "stop":
            with pytest.raises(BudgetUsedUpError, match="1500 tokens"):
                graph.invoke(answer, THREAD)
            assert len(model.calls) == planned
        else:
            report = graph.invoke(answer, THREAD)["report"]
            assert "budget_lowered" in codes(report)
            assert budget.spent == report["usage"]["output_tokens"] <= 1500

    @pytest.mark.parametrize("is_elsewhere", [False, True], ids=["here", "another process"])
    @pytest.mark.parametrize("unit", ["total", "usd"])
    def test_a_raised_budget_answers_with_the_whole_budget_and_pays_nothing_twice(
        self, unit: str, *, is_elsewhere: bool
    ) -> None:
        def budget_of() -> Budget:
            return Budget(1500) if unit == "total" else Budget(usd=0.006, prices=PRICES)

        model, saver, budget = ScriptedChat(plan=CHAIN), InMemorySaver(), budget_of()
        graph = pausing(model, budget, saver)
        graph.invoke(QUESTION, THREAD)
        planned = len(model.calls)
        if is_elsewhere:
            budget = budget_of()
            graph = pausing(model, budget, saver)
        by = 2000 if unit == "total" else 0.01
        report = graph.invoke(Command(resume={"action": "raise", "by": by}), THREAD)["report"]
        assert report["budget"] == 2000 < report["limit"]
        assert len(model.calls) == planned + len(CHAIN)
        assert report["usage"]["output_tokens"] == model.output_tokens
        assert sum(row["output_tokens"] for row in budget.spending.values()) == model.output_tokens


def test_a_budget_that_is_used_up_can_be_an_error() -> None:
    with pytest.raises(BudgetUsedUpError, match="1500 tokens"):
        pausing(ScriptedChat(plan=CHAIN), Budget(1500), None, "error").invoke(QUESTION)


def test_a_pause_needs_a_checkpointer_and_a_known_name() -> None:
    with pytest.raises(InputError, match="needs a checkpointer"):
        pausing(ScriptedChat(), Budget(1500), None).invoke(QUESTION)
    with pytest.raises(InputError, match="answer, pause, error"):
        pausing(ScriptedChat(), Budget(1500), None, "raise")


def test_a_budget_of_the_run_can_pause_it_too() -> None:
    graph = pausing(ScriptedChat(plan=CHAIN), Budget(5000), InMemorySaver())
    out = graph.invoke(QUESTION, THREAD, context=Context(limit=Budget(1500)))
    assert "__interrupt__" in out
