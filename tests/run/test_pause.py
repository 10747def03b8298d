"""A graph whose shared budget is used up pauses before it solves, and goes on as decided."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from pb_graph import Budget, BudgetUsedUpError, Context, InputError, build_graph
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import CHAIN, QUESTION, codes

THREAD: Any = {"configurable": {"thread_id": "1"}}
SETTINGS = {"budget": 2000, "execution": "stepwise", "plan_from": 1}
PRICES = {"scripted-1": (1.0, 4.0)}


def pausing(model: ScriptedChat, budget: Budget, saver: Any, on_used_up: Any = "pause") -> Any:  # noqa: ANN401
    return build_graph(
        model, settings=SETTINGS, limit=budget, checkpointer=saver, on_used_up=on_used_up
    )


class TestPausing:
    def test_a_question_that_the_budget_has_too_little_for_pauses_before_it_is_solved(self) -> None:
        model, budget = ScriptedChat(plan=CHAIN), Budget(1500)
        out = pausing(model, budget, InMemorySaver()).invoke(QUESTION, THREAD)
        value = out["__interrupt__"][0].value
        assert value["unit"] == "completion tokens"
        assert value["asked"] == QUESTION["question"]
        assert value["spent"] == budget.spent == model.output_tokens > 0
        assert not [call for call in model.calls if call.node == "solve"]

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

    def test_a_question_told_to_finish_gets_the_rest(self) -> None:
        model, budget = ScriptedChat(plan=CHAIN), Budget(1500)
        graph = pausing(model, budget, InMemorySaver())
        graph.invoke(QUESTION, THREAD)
        report = graph.invoke(Command(resume={"action": "finish"}), THREAD)["report"]
        assert "budget_lowered" in codes(report)
        assert budget.spent == report["usage"]["output_tokens"] <= 1500

    def test_a_question_told_to_stop_pays_nothing_more(self) -> None:
        model = ScriptedChat(plan=CHAIN)
        graph = pausing(model, Budget(1500), InMemorySaver())
        graph.invoke(QUESTION, THREAD)
        paid = len(model.calls)
        with pytest.raises(BudgetUsedUpError, match="1500 tokens"):
            graph.invoke(Command(resume={"action": "stop"}), THREAD)
        assert len(model.calls) == paid


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


def test_a_budget_that_is_large_enough_pauses_nothing() -> None:
    out = pausing(ScriptedChat(plan=CHAIN), Budget(5000), InMemorySaver()).invoke(QUESTION, THREAD)
    assert "__interrupt__" not in out
    assert out["answer"]
