"""A key that the graph does not know is refused, whichever way it is run; a host's state is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.managed import RemainingSteps

from pb_graph import InputError
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import QUESTION, graph_of

Run = Callable[[Any, dict[str, Any]], object]


async def _awaited(stream: Any) -> list[Any]:  # noqa: ANN401 -- any stream
    return [part async for part in stream]


WAYS: dict[str, Run] = {
    "invoke": lambda graph, given: graph.invoke(given),
    "ainvoke": lambda graph, given: asyncio.run(graph.ainvoke(given)),
    "stream": lambda graph, given: list(graph.stream(given)),
    "astream": lambda graph, given: asyncio.run(_awaited(graph.astream(given))),
    "astream_events": lambda graph, given: asyncio.run(
        _awaited(graph.astream_events(given, version="v2"))
    ),
    "batch": lambda graph, given: graph.batch([given]),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_mistyped_key_is_refused_before_anything_is_spent(way: str) -> None:
    model = ScriptedChat()
    with pytest.raises(InputError, match=r"'levle' is no key .*; did you mean 'level'\?"):
        WAYS[way](graph_of(model), QUESTION | {"levle": 2})
    assert model.calls == []


@pytest.mark.parametrize("way", WAYS)
def test_a_bare_text_is_no_input_and_what_is_one_is_said(way: str) -> None:
    run: Any = WAYS[way]
    with pytest.raises(InputError, match=r'text alone is no input: give {"question": "\.\.\."}'):
        run(graph_of(ScriptedChat()), "How many pens?")


@pytest.mark.parametrize("key", ["schedule", "settings"])
def test_a_setting_is_told_where_it_belongs(key: str) -> None:
    with pytest.raises(InputError, match=f"'{key}' is a setting: give it to build_graph"):
        graph_of(ScriptedChat()).invoke(QUESTION | {key: "cosine"})


def test_it_stays_so_in_a_copy_with_a_config() -> None:
    with pytest.raises(InputError, match="'levle'"):
        graph_of(ScriptedChat()).with_config(tags=["mine"]).invoke(QUESTION | {"levle": 2})


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize(("key", "value"), [("budget", 300), ("level", 2), ("domain", "law")])
def test_what_belongs_to_the_question_is_not_lost_in_the_config(
    key: str, value: object, bound: bool
) -> None:
    model, config = ScriptedChat(), {"configurable": {key: value}}
    graph = graph_of(model)
    with pytest.raises(InputError, match=rf"'{key}' in config.* in the input, .*'?{value}"):
        graph.with_config(config).invoke(QUESTION) if bound else graph.invoke(QUESTION, config)
    assert model.calls == []


def test_a_config_may_hold_what_else_it_likes() -> None:
    held = {"thread_id": "1", "user_id": "me", "assistant_id": "a", "model": "m", "budget": None}
    held |= {"checkpoint_ns": "", "langgraph_auth_user": {}, "method": "theirs", "timeout": 5}
    out = graph_of(ScriptedChat()).invoke(QUESTION, {"configurable": held})
    assert out["answer"] == "Final answer: 42"


def test_a_hosts_config_may_hold_that_too() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("ours", graph_of(ScriptedChat()))
    builder.add_edge(START, "ours")
    said: Any = {"messages": [("human", "How many?")]}
    out = builder.compile().invoke(said, {"configurable": {"budget": 9, "domain": "a.example"}})
    assert out["messages"][-1].text == "Final answer: 42"


class HostState(MessagesState, total=False):
    """A state with a key of its own, and one that LangGraph fills in."""

    jump_to: str
    remaining_steps: RemainingSteps


def by_graph(graph: Any) -> Any:  # noqa: ANN401
    return graph


def by_function(graph: Any) -> Any:  # noqa: ANN401
    def node(state: HostState) -> Any:  # noqa: ANN401
        return graph.invoke(state)

    return node


def by_function_with_config(graph: Any) -> Any:  # noqa: ANN401
    def node(state: HostState, config: RunnableConfig) -> Any:  # noqa: ANN401
        return graph.invoke(state, config)

    return node


def by_copy(graph: Any) -> Any:  # noqa: ANN401
    """As deepagents does it."""
    copy = graph.with_config(metadata={"lc_agent_name": "ours"})
    return lambda state: copy.invoke(state, {"configurable": {"ls_agent_type": "subagent"}})


def host_of(node: Any) -> Any:  # noqa: ANN401
    builder = StateGraph(HostState)
    builder.add_node("ours", node)
    builder.add_edge(START, "ours")
    return builder.compile()


@pytest.mark.parametrize("handed", [by_graph, by_function, by_function_with_config, by_copy])
def test_a_hosts_state_may_hold_what_it_likes(handed: Callable[[Any], Any]) -> None:
    host = host_of(handed(graph_of(ScriptedChat())))
    out = host.invoke({"messages": [("human", "How many?")], "jump_to": "end"})
    assert out["messages"][-1].text == "Final answer: 42"


@pytest.mark.parametrize("config", [{}, {"configurable": {"thread_id": "1"}}])
@pytest.mark.parametrize(("key", "said"), [("levle", "did you mean"), ("schedule", "a setting")])
def test_what_a_hosts_function_writes_itself_is_looked_at(
    key: str, said: str, config: RunnableConfig
) -> None:
    graph = graph_of(ScriptedChat())
    host = host_of(lambda _: graph.invoke(QUESTION | {key: 2}, config))
    with pytest.raises(InputError, match=f"'{key}' is .*{said}"):
        host.invoke({"messages": [], "jump_to": "end"})
