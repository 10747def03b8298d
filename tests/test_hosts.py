"""In other people's graphs: as a node, a deepagents subagent, and a supervisor's worker."""
# ruff: noqa: ANN401 -- graphs of other packages, whose types say little

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import pytest
from deepagents import create_deep_agent
from langchain_core.messages import AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from langgraph_supervisor import create_supervisor

from tests.support.agents import ASK, THREAD, calls
from tests.support.chat_model import ScriptedChat, in_turn
from tests.support.graphs import Way, graph_of, run

stepwise = partial(graph_of, execution="stepwise")

TASK = "14 / 2 * 3?"
BUDGET = 222
HOSTS = ["node", "deepagents", "supervisor"]

# The supervisor package builds on what LangGraph has since moved to LangChain.
pytestmark = pytest.mark.filterwarnings("ignore::langgraph.warnings.LangGraphDeprecatedSinceV10")


@dataclass
class HostContext:
    """A host's own context, with a field of ours and one that only looks like ours."""

    settings: str = "the host's own"
    plan_and_budget: Any = None


def as_node(graph: Any, **options: Any) -> Any:
    builder = StateGraph(MessagesState, context_schema=HostContext)
    builder.add_node("plan_and_budget", graph)
    builder.add_edge(START, "plan_and_budget")
    return builder.compile(**options)


def as_subagent(graph: Any, **options: Any) -> Any:
    asks = calls("task", text="", description=TASK, subagent_type="plan-and-budget")
    subagent: Any = {"name": "plan-and-budget", "description": "Hard ones.", "runnable": graph}
    return create_deep_agent(
        model=ScriptedChat(solve=in_turn(asks, "The host has it.")),
        subagents=[subagent],
        context_schema=HostContext,
        **options,
    )


def as_worker(graph: Any, **options: Any) -> Any:
    hands_over = calls("transfer_to_plan_and_budget", text="")
    supervisor = create_supervisor(
        [graph],
        model=ScriptedChat(solve=in_turn(hands_over, "The host has it.")),
        context_schema=HostContext,
    )
    return supervisor.compile(**options)


def host_of(kind: str, graph: Any, **options: Any) -> Any:
    return {"node": as_node, "deepagents": as_subagent, "supervisor": as_worker}[kind](
        graph, **options
    )


def ours(messages: list[AnyMessage]) -> list[AnyMessage]:
    """What the host's conversation shows of us; the supervisor adds a hand-over in our name."""
    return [
        message
        for message in messages
        if (message.type, message.name) in {("ai", "plan_and_budget"), ("tool", "task")}
        and not getattr(message, "tool_calls", None)
    ]


def said_by_us(messages: list[AnyMessage]) -> list[str]:
    return [message.text for message in ours(messages)]


@pytest.mark.parametrize("way", get_args(Way))
@pytest.mark.parametrize("kind", HOSTS)
def test_a_host_gets_one_message_with_the_answer(kind: str, way: Way) -> None:
    solver = ScriptedChat(solve="21 pens")
    out = run(host_of(kind, stepwise(solver)), ASK, way)
    assert said_by_us(out["messages"]) == ["21 pens"]
    assert kind == "node" or out["messages"][-1].text == "The host has it."
    assert len(solver.solving()) == len(solver.plan)
    if kind != "deepagents":  # which makes a tool's result of it
        (said,) = ours(out["messages"])
        assert said.usage_metadata["output_tokens"] == solver.output_tokens  # type: ignore[union-attr]


@pytest.mark.parametrize("way", get_args(Way))
@pytest.mark.parametrize("kind", HOSTS)
@pytest.mark.parametrize("ours", [None, {"settings": {"budget": BUDGET}}], ids=["none", "ours"])
def test_the_hosts_context_is_its_own_and_ours_is_found_in_it(
    kind: str, way: Way, ours: Any
) -> None:
    solver = ScriptedChat()
    graph = stepwise(solver, method="global_budget", budget=111, reserve=0)
    run(host_of(kind, graph), ASK, way, context=HostContext(plan_and_budget=ours))
    assert [call.cap for call in solver.solving()] == [BUDGET if ours else 111]


@pytest.mark.parametrize("way", get_args(Way))
@pytest.mark.parametrize("kind", HOSTS)
def test_a_review_pauses_the_host_and_resumes_it(kind: str, way: Way) -> None:
    solver = ScriptedChat(solve="21 pens")
    host = host_of(kind, stepwise(solver, review_plan=True), checkpointer=InMemorySaver())
    (asked,) = run(host, ASK, way, config=THREAD)["__interrupt__"]
    planned = len(solver.calls)
    assert [step["question"] for step in asked.value["plan"]] == ["What is given?", "What follows?"]
    assert sum(asked.value["shares"]) == asked.value["budget"]
    out = run(
        host,
        Command(resume={"plan": [{"question": "What follows?"}], "budget": 99}),
        way,
        config=THREAD,
    )
    assert said_by_us(out["messages"]) == ["21 pens"]
    (solved,) = solver.calls[planned:]
    assert solved.role == "solve"
    assert "What follows?" in solved.ask
