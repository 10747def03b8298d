"""A chat model under a budget, for hosts that take a model: what it reserves, keeps and says."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.graph import START, MessagesState, StateGraph

from pb_graph import Budget, BudgetedChatModel, BudgetUsedUpError, InputError
from pb_graph.agents.call import FINISH
from pb_graph.budget import use_budget
from pb_graph.models.client import RetryPolicy
from tests.support.agents import Pens, calls, look_up
from tests.support.chat_model import CutOffError, HTTPError, Reply, ScriptedChat, in_turn, runs_on
from tests.support.graphs import Way, run

WAYS = get_args(Way)
ASK = [HumanMessage("How many pens?")]
MARK = {"finish_reason": "length", "budget_used_up": True}
pytestmark = pytest.mark.filterwarnings("ignore::langgraph.warnings.LangGraphDeprecatedSinceV10")


def budgeted(model: ScriptedChat, total: int = 100, **options: Any) -> BudgetedChatModel:  # noqa: ANN401
    return BudgetedChatModel(model=model, budget=Budget(total), **options)


@pytest.mark.parametrize("way", WAYS)
def test_a_call_is_capped_by_what_is_left_and_settles(way: Way) -> None:
    usage = UsageMetadataCallbackHandler()
    model = ScriptedChat(solve="21 pens", callbacks=[usage])
    made = budgeted(model)
    said = run(made, ASK, way)
    assert said.text == "21 pens"
    assert [call.cap for call in model.calls] == [90]
    assert made.budget.spent == 2  # type: ignore[union-attr]
    assert usage.usage_metadata["scripted-1"]["output_tokens"] == 2  # one run, not two


@pytest.mark.parametrize("way", WAYS)
def test_a_tenth_is_reserved_for_the_model_whatever_others_spend(way: Way) -> None:
    model = ScriptedChat(solve="21 pens")
    made = budgeted(model).bind_tools([look_up], tool_choice="any")
    made.bound.budget.reserve().settle(90)
    said = run(made, [SystemMessage("Be kind."), *ASK], way)
    assert said.text == "21 pens"
    (call,) = model.calls
    assert call.cap == 10
    assert call.messages[-1].text == f"{ASK[0].text}\n\n{FINISH}"
    assert not call.arguments.keys() & {"tools", "tool_choice"}


@pytest.mark.parametrize("way", WAYS)
def test_the_last_answer_keeps_the_tool_that_gives_its_type(way: Way) -> None:
    typed = calls("Pens", text="", number=21)
    model = ScriptedChat(solve=lambda asked: typed if asked.arguments.get("tools") else "21 pens")
    made = budgeted(model)
    made.budget.reserve().settle(90)  # type: ignore[union-attr]
    assert run(made.with_structured_output(Pens), ASK, way) == Pens(number=21)
    (asked,) = model.calls
    assert (asked.cap, asked.arguments["tool_choice"]) == (10, "any")
    assert FINISH in str(asked.messages)


@pytest.mark.parametrize("way", WAYS)
def test_a_used_up_budget_is_told_without_a_call(way: Way) -> None:
    model = ScriptedChat(solve=runs_on)
    made = budgeted(model)
    first, second = [run(made, ASK, way) for _ in range(2)]
    assert [call.cap for call in model.calls] == [90, 10]
    assert second.text.startswith("The budget of 100 tokens is used up. The task is not finished")
    assert first.response_metadata.items() >= MARK.items()  # its ending came back cut
    assert second.response_metadata.items() >= MARK.items()


@pytest.mark.parametrize("way", WAYS)
def test_transient_faults_are_retried_within_the_budget(way: Way) -> None:
    said = [HTTPError(429), CutOffError(30), Reply("and so on " * 100), "21 pens"]
    model = ScriptedChat(solve=lambda _: said.pop(0), max_retries=0)
    made = budgeted(model, retry_policy=RetryPolicy(3, initial_interval=0.0))
    assert run(made, ASK, way).text.endswith("21 pens")
    assert [call.cap for call in model.calls] == [90, 90, 60, 10]
    assert made.budget.spent == 30 + 60 + 2  # type: ignore[union-attr]


@pytest.mark.parametrize("way", WAYS)
def test_a_truncated_answer_is_kept_when_its_ending_fails(way: Way) -> None:
    model = ScriptedChat(solve=in_turn(Reply("and so on " * 100), HTTPError(400)))
    made = budgeted(model)
    assert len(run(made, ASK, way).text.split()) == 90
    assert made.budget.spent == 90  # type: ignore[union-attr]


@pytest.mark.parametrize("way", WAYS)
def test_a_model_without_a_budget_uses_the_one_around_the_run(way: Way) -> None:
    model, budget = ScriptedChat(solve="21 pens"), Budget(100)
    made = BudgetedChatModel(model=model, reserve=0)
    with use_budget(budget):
        run(made, ASK, way)
    assert (model.calls[0].cap, budget.spent, budget.left) == (100, 2, 98)
    with pytest.raises(InputError, match="no budget"):
        run(made, ASK, way)


def test_streaming_hosts_receive_the_answer() -> None:
    made = budgeted(ScriptedChat(solve="21 pens it is"))
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda state: {"messages": [made.invoke(state["messages"])]})
    builder.add_edge(START, "say")
    parts = [
        part for part, _ in builder.compile().stream({"messages": ASK}, stream_mode="messages")
    ]
    assert len(parts) > 3
    assert "".join(part.text for part in parts) == "21 pens it is"
    assert len({part.id for part in parts}) == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", [ToolStrategy, ProviderStrategy])
def test_a_typed_agent_ends_with_an_error_when_nothing_is_left(form: Any, way: Way) -> None:  # noqa: ANN401
    """LangChain's would ask ten thousand times."""
    budget = Budget(100)
    budget.charge(100)
    made: Any = BudgetedChatModel(model=ScriptedChat(), budget=budget)
    agent: Any = create_agent(made, [], response_format=form(Pens))
    with pytest.raises(BudgetUsedUpError, match="budget of 100 tokens is used up"):
        run(agent, {"messages": ASK}, way, config={"recursion_limit": 20})
