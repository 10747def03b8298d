"""Nodes in a host's hands: callbacks, streams, parents, threads, and many questions at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any, get_args

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.chat_model import Call, ScriptedChat
from tests.support.graphs import CHAIN, DIAMOND, QUESTION, Way, checked, graph_of, run

ASKED = {"messages": [HumanMessage("How many?")]}
STEPWISE: dict[str, Any] = {"method": "plan_and_budget", "execution": "stepwise", "plan_from": 1}


async def streamed(graph: Any, given: object, way: Way, **options: Any) -> list[Any]:  # noqa: ANN401
    if way == "invoke":
        return list(await asyncio.to_thread(lambda: list(graph.stream(given, **options))))
    return [part async for part in graph.astream(given, **options)]


both_ways = pytest.mark.parametrize("way", get_args(Way))


@both_ways
async def test_progress_is_told_as_custom_events(way: Way) -> None:
    model = ScriptedChat(plan=CHAIN)
    chosen = STEPWISE | {"planning": "two_call", "schedule": "weighted"}
    events = await streamed(graph_of(model, **chosen), QUESTION, way, stream_mode="custom")
    calls = [event for event in events if event["event"] == "call"]
    assert sum(call["usage"]["output_tokens"] for call in calls) == model.output_tokens
    assert [event["event"] for event in events if event["event"] != "call"] == [
        "intake",
        "estimate",
        "plan",
        "estimate",
        *["allocate", "step_started", "step_done"] * 4,
        "answer",
    ]
    json.dumps(events)


@both_ways
def test_what_a_checkpointer_stores_is_plain_json(way: Way) -> None:
    graph = graph_of(ScriptedChat(plan=DIAMOND), checkpointer=InMemorySaver(), **STEPWISE)
    thread = {"configurable": {"thread_id": "1"}}
    run(graph, ASKED | {"level": 2}, way, config=thread)
    history = list(graph.get_state_history(thread))
    assert len(history) > 6
    for snapshot in history:
        values = dict(snapshot.values)
        values.pop("messages", None)
        assert json.loads(json.dumps(values)) == values


async def test_fifty_questions_at_once_have_an_account_each() -> None:
    def echoes(call: Call) -> str:
        text = str(call.messages)
        (number,) = {n for n in range(50) if f"question number {n}." in text}
        return f"the answer {'so ' * number}{number}"

    model = ScriptedChat(plan=CHAIN, solve=echoes)
    graph = graph_of(model, **STEPWISE, budget=1000, reserve=0)
    outs = await asyncio.gather(
        *(graph.ainvoke({"question": f"This is question number {n}."}) for n in range(50))
    )
    reports = [checked(out["report"]) for out in outs]
    for number, report in enumerate(reports):
        assert report["answer"].split()[-1] == str(number)
        assert report["usage"]["by_node"]["solve"]["output_tokens"] == 4 * (number + 3)
        assert report["usage"]["calls"] == 6
    assert sum(report["usage"]["output_tokens"] for report in reports) == model.output_tokens


async def test_a_sync_run_works_inside_a_running_event_loop() -> None:
    model = ScriptedChat(plan=DIAMOND)
    report = checked(graph_of(model, **STEPWISE).invoke(QUESTION)["report"])
    assert report["usage"]["output_tokens"] == model.output_tokens
    assert report["warnings"] == []
