"""A node in a host's hands: what it calls, keeps, streams, and does not ask for again."""
# ruff: noqa: ANN401 -- compiled graphs and inherited signatures, whose types say little

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from pydantic import Field

from pb_graph import Budget, Settings
from pb_graph.errors import NoAnswerError
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import run_sync
from pb_graph.prompts import FORCE_STEP
from pb_graph.run.node import Node
from pb_graph.run.parts import GraphParts
from pb_graph.run.run import Run
from pb_graph.settings import Context
from pb_graph.state import State
from pb_graph.types import Purpose
from tests.support.agents import THREAD
from tests.support.chat_model import CORRECTION, Call, HTTPError, ScriptedChat, fumbling_script
from tests.support.graphs import (
    CHAIN,
    DIAMOND,
    QUESTION,
    Way,
    both_ways,
    checked,
    graph_of,
    report_of,
    run,
    streamed,
    timeless,
)

STEPWISE: dict[str, Any] = {"method": "plan_and_budget", "execution": "stepwise", "plan_from": 1}


@both_ways
def test_progress_is_told_as_custom_events(way: Way) -> None:
    model = ScriptedChat(plan=CHAIN)
    chosen = STEPWISE | {"planning": "two_call", "schedule": "weighted"}
    events = streamed(graph_of(model, **chosen), QUESTION, way, stream_mode="custom")
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


def test_what_a_checkpointer_stores_is_plain_json() -> None:
    graph = graph_of(ScriptedChat(plan=DIAMOND), checkpointer=InMemorySaver(), **STEPWISE)
    run(graph, {"messages": [HumanMessage("How many?")], "level": 2}, config=THREAD)
    history = list(graph.get_state_history(THREAD))
    assert len(history) > 6
    for snapshot in history:
        values = dict(snapshot.values)
        values.pop("messages", None)
        assert json.loads(json.dumps(values)) == values


async def test_twenty_questions_at_once_have_an_account_each() -> None:
    def echoes(call: Call) -> str:
        text = str(call.messages)
        (number,) = {n for n in range(20) if f"question number {n}." in text}
        return f"the answer {'so ' * number}{number}"

    model = ScriptedChat(plan=CHAIN, solve=echoes)
    graph = graph_of(model, **STEPWISE, budget=1000, reserve=0)
    outs = await asyncio.gather(
        *(graph.ainvoke({"question": f"This is question number {n}."}) for n in range(20))
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


class CutOffHere(BaseException):
    """The end of the process, as far as a node can see."""


def graph_with(node: Any, model: ScriptedChat, **settings: Any) -> Any:
    """A graph of one node, which a newcomer wrote."""
    parts = GraphParts(Settings(**settings), {"solver": model})
    builder = StateGraph(State, context_schema=Context)
    builder.add_node("work", Node(node, parts, is_entry=True))
    builder.add_edge(START, "work")
    return builder.compile(checkpointer=InMemorySaver())


def test_a_finished_call_is_not_paid_again_however_often_the_node_starts_over() -> None:
    starts: list[int] = []

    async def node(_: State, run: Run) -> State:
        starts.append(len(starts))
        for text in ("first", "second"):
            await run.ask([HumanMessage(text)], CallOptions(50, purpose=Purpose("work")))
        if len(starts) < 3:
            raise CutOffHere
        return {"answer": "done"}

    model, budget = ScriptedChat(solve="two words"), Budget(5000)
    graph = graph_with(node, model)
    with suppress(CutOffHere):
        graph.invoke(QUESTION, THREAD, context=Context(limit=Budget(5000)))
    with suppress(CutOffHere):
        graph.invoke(None, THREAD, context=Context(limit=budget))
    graph.invoke(None, THREAD, context=Context(limit=budget))
    assert [call.ask for call in model.calls] == ["first", "second"]
    assert budget.spent == 4  # a budget that did not see them counts them once


@pytest.mark.parametrize("waits", [lambda: asyncio.sleep(0), lambda: asyncio.sleep(1)])
def test_a_method_that_needs_an_event_loop_says_so_in_a_synchronous_run(waits: Any) -> None:
    async def method() -> None:
        await waits()

    with pytest.raises(RuntimeError, match="event loop"):
        run_sync(method())


@both_ways
@pytest.mark.parametrize("error", [HTTPError(404), ConnectionRefusedError()], ids=repr)
def test_a_server_that_will_not_answer_is_not_asked_again(error: Exception, way: Way) -> None:
    model = ScriptedChat(planner=error)
    graph = graph_of(model, max_retries=0)
    for asked in (1, 2):  # the next question asks anew
        with pytest.raises(NoAnswerError, match="was not asked again") as caught:
            run(graph, QUESTION, way)
        assert len(model.calls) == asked
        assert str(caught.value).count("failed with") == 1


class Strike(asyncio.Event):
    """Where a run is cut off, once: at the first prompt that says all of this."""

    def __init__(self, *said: str) -> None:
        super().__init__()
        self.said = said

    def here(self, messages: Any) -> bool:
        if self.is_set() or not all(said in str(messages) for said in self.said):
            return False
        self.set()
        return True


class CutOff(ScriptedChat):
    """Fumbles, so that every node needs a second call, and never answers one of them."""

    strike: Any = Field(repr=False)

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        if self.strike.here(messages):
            raise CutOffHere
        return super()._generate(messages, stop, run_manager, **kwargs)

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        if self.strike.here(messages):
            await asyncio.Event().wait()
        return await super()._agenerate(messages, stop, run_manager, **kwargs)


def fumbling(plan: tuple[str, ...], *strike: str) -> CutOff:
    return CutOff(strike=Strike(*strike), **fumbling_script({"plan": plan, "fumbles": True}))


def cut_off(graph: Any, model: CutOff, way: Way) -> None:
    """Run until the strike, and until no sibling is at work any more."""

    async def cancelled() -> None:
        going = asyncio.create_task(graph.ainvoke(QUESTION, THREAD))
        await model.strike.wait()
        while sum(one.result is None for one in graph.get_state(THREAD).tasks) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        going.cancel()
        with suppress(asyncio.CancelledError):
            await going

    if way == "ainvoke":
        asyncio.run(cancelled())
    else:
        with pytest.raises(CutOffHere):
            graph.invoke(QUESTION, THREAD)


@both_ways
@pytest.mark.parametrize(
    ("plan", "strike"),
    [
        pytest.param(CHAIN, [CORRECTION], id="the-planners-repair"),
        pytest.param(CHAIN, [FORCE_STEP, "only that: Third?"], id="a-forced-ending"),
        pytest.param(DIAMOND, [FORCE_STEP, "only that: Right?"], id="beside-a-sibling"),
    ],
)
def test_only_the_call_that_was_not_finished_is_made_again(
    plan: tuple[str, ...], strike: list[str], way: Way
) -> None:
    model = fumbling(plan, *strike)
    graph = graph_of(model, checkpointer=InMemorySaver(), execution="stepwise")
    cut_off(graph, model, way)
    report = checked(run(graph, None, way, config=THREAD)["report"])
    whole = ScriptedChat(**fumbling_script({"plan": plan, "fumbles": True}))
    assert timeless(report) == timeless(report_of(whole, way=way, execution="stepwise"))
    finished = sorted(call.ask for call in model.calls if call.finish)
    assert finished == sorted(call.ask for call in whole.calls)


@both_ways
def test_many_parallel_steps_do_not_wait_for_each_other(way: Way) -> None:
    """As they would if each call took a worker beside that of its node."""
    plan = tuple(f"Part {number}? | after nothing" for number in range(1, 9))
    chosen: Any = {"execution": "stepwise", "max_steps": 8, "checkpointer": InMemorySaver()}
    graph = graph_of(fumbling(plan, "nowhere"), **chosen)
    out = run(graph, QUESTION, way, config=THREAD | {"max_concurrency": 1})
    assert len(checked(out["report"])["steps"]) == len(plan)
