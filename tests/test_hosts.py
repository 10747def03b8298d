"""In other people's hands: as a node, a subagent, a worker, and what is streamed to each."""
# ruff: noqa: ANN401 -- graphs of other packages, whose types say little

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from langgraph_supervisor import create_supervisor
from pydantic import Field

from pb_graph import plan_and_budget_tool
from tests.support.agents import ASK, THREAD, calls
from tests.support.chat_model import Call, ScriptedChat, in_turn
from tests.support.graphs import DIAMOND, Way, both_ways, graph_of, run, streamed

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


@both_ways
@pytest.mark.parametrize("kind", HOSTS)
def test_a_host_gets_one_message_with_the_answer(kind: str, way: Way) -> None:
    solver = ScriptedChat(solve="21 pens")
    out = run(host_of(kind, stepwise(solver)), ASK, way)
    assert [said.text for said in ours(out["messages"])] == ["21 pens"]
    assert kind == "node" or out["messages"][-1].text == "The host has it."
    assert len(solver.solving()) == len(solver.plan)
    if kind != "deepagents":  # which makes a tool's result of it
        (said,) = ours(out["messages"])
        assert said.usage_metadata["output_tokens"] == solver.output_tokens  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", HOSTS)
@pytest.mark.parametrize("ours", [None, {"settings": {"budget": BUDGET}}], ids=["none", "ours"])
def test_the_hosts_context_is_its_own_and_ours_is_found_in_it(kind: str, ours: Any) -> None:
    solver = ScriptedChat()
    graph = stepwise(solver, method="global_budget", budget=111, reserve=0)
    run(host_of(kind, graph), ASK, context=HostContext(plan_and_budget=ours))
    assert [call.cap for call in solver.solving()] == [BUDGET if ours else 111]


@pytest.mark.parametrize("kind", HOSTS)
def test_a_review_pauses_the_host_and_resumes_it(kind: str) -> None:
    solver = ScriptedChat(solve="21 pens")
    host = host_of(kind, stepwise(solver, review_plan=True), checkpointer=InMemorySaver())
    (asked,) = run(host, ASK, config=THREAD)["__interrupt__"]
    planned = len(solver.calls)
    assert [step["question"] for step in asked.value["plan"]] == ["What is given?", "What follows?"]
    assert sum(asked.value["shares"]) == asked.value["budget"]
    edit = {"plan": [{"question": "What follows?"}], "budget": 99}
    out = run(host, Command(resume=edit), config=THREAD)
    assert [said.text for said in ours(out["messages"])] == ["21 pens"]
    (solved,) = solver.calls[planned:]
    assert solved.role == "solve"
    assert "What follows?" in solved.ask


ANSWER = "Final answer: 21 pens"


def solver() -> ScriptedChat:
    return ScriptedChat(plan=DIAMOND, solve=in_turn("a", "b", "c", ANSWER))


@both_ways
@pytest.mark.parametrize(("hosted", "subgraphs"), [(False, False), (True, False), (True, True)])
def test_of_the_messages_only_the_answer_is_streamed(
    hosted: bool, subgraphs: bool, way: Way
) -> None:
    graph = stepwise(solver())
    parts = streamed(
        as_node(graph) if hosted else graph, ASK, way, stream_mode="messages", subgraphs=subgraphs
    )
    said = [(part[1] if subgraphs else part)[0] for part in parts]
    assert "".join(message.text for message in said) == ANSWER
    assert len({message.id for message in said}) == 1
    in_pieces = subgraphs or not hosted
    assert (len(said) > 1) == in_pieces


@both_ways
@pytest.mark.parametrize(
    "settings",
    [
        {"method": "vanilla"},
        {"method": "global_budget", "enforcement": "force", "budget": 30},
        {"execution": "single_pass"},
        {"execution": "stepwise", "synthesis": "call", "budget": 700},
        {"execution": "stepwise", "enforcement": "force", "budget": 80},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_the_pieces_of_every_methods_answer_make_up_its_message(
    settings: dict[str, Any], way: Way
) -> None:
    def solve(call: Call) -> str:
        return ANSWER if call.forced else "so it goes on " * 20

    graph = graph_of(ScriptedChat(plan=DIAMOND, solve=solve), **settings)
    shown, message = answered(graph, way)
    assert "\n\n".join(shown.values()) == message.text  # a forced ending is a message of its own
    assert message.id == [*shown][-1]
    forced = settings.get("enforcement") == "force"
    assert message.text.endswith(ANSWER if forced else "so it goes on")


@both_ways
def test_an_answer_that_breaks_off_begins_again_as_another_message(way: Way) -> None:
    model = Faltering(plan=DIAMOND, solve=in_turn("a", "b", "c", ANSWER), max_retries=0)
    shown, message = answered(stepwise(model), way)
    assert list(shown.values()) == ["Perhaps", ANSWER]
    assert (message.id, message.text) == list(shown.items())[-1]


class Faltering(ScriptedChat):
    """Its first stream breaks off after the first word."""

    faltered: list[bool] = Field(default_factory=list)

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        stream = super()._stream(*args, **kwargs)
        if not self.faltered:
            self.faltered.append(True)
            yield ChatGenerationChunk(message=AIMessageChunk(content="Perhaps"))
            raise ConnectionError
        yield from stream


def answered(graph: Any, way: Way) -> tuple[dict[str, str], AIMessage]:
    """What was shown under which id, and the message in the state."""
    parts = streamed(graph, ASK, way, stream_mode=["messages", "values"])
    shown: dict[str, str] = {}
    for mode, data in parts:
        if mode == "messages":
            shown[data[0].id] = shown.get(data[0].id, "") + data[0].text
    return shown, parts[-1][1]["messages"][-1]


@both_ways
def test_an_agents_messages_show_the_tools_answer_and_nothing_of_its_working(way: Way) -> None:
    asks = calls("plan_and_budget", text="", question="14 / 2 * 3?")
    host = ScriptedChat(solve=in_turn(asks, "It buys 21 pens."))
    tools = [plan_and_budget_tool(stepwise(solver()))]
    agent = create_agent(host.model_copy(update={"disable_streaming": True}), tools)
    parts = streamed(agent, ASK, way, stream_mode="messages")
    said = [(type(message), message.text) for message, _ in parts if message.text]
    assert said == [(ToolMessage, ANSWER), (AIMessage, "It buys 21 pens.")]
