"""What a host that streams gets to see: progress, the answer, and nothing from in between."""
# ruff: noqa: ANN401 -- what a stream yields depends on its mode

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any, get_args

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import Field

from pb_graph import Settings, build_graph, plan_and_budget_tool
from tests.support.agents import ASK, calls
from tests.support.chat_model import Call, ScriptedChat, in_turn
from tests.support.endpoints import chat_to
from tests.support.fault_server import FaultServer
from tests.support.graphs import DIAMOND, Way, checked, graph_of

stepwise = partial(graph_of, execution="stepwise")

ANSWER = "Final answer: 21 pens"

both_ways = pytest.mark.parametrize("way", get_args(Way))


def streamed(graph: Any, given: object, way: Way, **options: Any) -> list[Any]:
    if way == "invoke":
        return list(graph.stream(given, **options))

    async def follow() -> list[Any]:
        return [part async for part in graph.astream(given, **options)]

    return asyncio.run(follow())


def as_node(graph: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("solver", graph)
    builder.add_edge(START, "solver")
    return builder.compile()


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


@pytest.mark.integration
@both_ways
@pytest.mark.parametrize(
    ("mode", "streaming"),
    [("messages", None), ("messages", False), ("updates", None), ("custom", True)],
)
def test_a_real_client_streams_the_answer_only_and_reports_its_usage(
    mode: str, streaming: bool | None, way: Way
) -> None:
    with FaultServer() as server:
        chosen: Any = {} if streaming is None else {"streaming": streaming}
        model = chat_to(server.url, max_retries=0, **chosen)
        settings = Settings(execution="stepwise", plan_from=1, budget=700)
        graph = as_node(build_graph(model, settings=settings))
        modes = [mode, "values"]
        parts = streamed(graph, ASK, way, stream_mode=modes, subgraphs=True)
    (report,) = [data["report"] for _, kind, data in parts if "report" in data][-1:]
    usage = checked(report)["usage"]
    assert usage["measured"]
    assert usage["calls"] == server.served
    assert usage["output_tokens"] == server.billed
    *others, last = [bool(request.body.get("stream")) for request in server.requests]
    assert not any(others)
    assert last == bool(streaming or (mode == "messages" and streaming is None))
