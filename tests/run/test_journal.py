"""A node that starts over: what its finished calls came to is not asked for again."""
# ruff: noqa: ANN401 -- compiled graphs and inherited signatures, whose types say little

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, get_args

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from pb_graph.prompts import FORCE_STEP
from tests.support.chat_model import CORRECTION, ScriptedChat, fumbling_script
from tests.support.graphs import (
    CHAIN,
    DIAMOND,
    QUESTION,
    Way,
    checked,
    graph_of,
    report_of,
    run,
    timeless,
)

both_ways = pytest.mark.parametrize("way", get_args(Way))
THREAD: dict[str, Any] = {"configurable": {"thread_id": "1"}}
FOREVER = 3600


class CutOffHere(BaseException):
    """The end of the process, as far as a node can see."""


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
            await asyncio.sleep(FOREVER)
        return await super()._agenerate(messages, stop, run_manager, **kwargs)


def fumbling(plan: tuple[str, ...], *strike: str) -> CutOff:
    return CutOff(strike=Strike(*strike), **fumbling_script({"plan": plan, "fumbles": True}))


def graph_with(model: ScriptedChat, saver: InMemorySaver | None, **settings: Any) -> Any:
    return graph_of(model, checkpointer=saver, execution="stepwise", **settings)


def cut_off(graph: Any, model: CutOff, way: Way) -> None:
    """Run until the strike, and until no sibling is at work any more."""

    async def cancelled() -> None:
        going = asyncio.create_task(graph.ainvoke(QUESTION, THREAD))
        await model.strike.wait()
        while graph.checkpointer and len(unfinished(graph)) > 1:  # noqa: ASYNC110 -- no event tells
            await asyncio.sleep(0.01)
        going.cancel()
        with suppress(asyncio.CancelledError):
            await going

    if way == "ainvoke":
        asyncio.run(cancelled())
    else:
        with pytest.raises(CutOffHere):
            graph.invoke(QUESTION, THREAD)


def unfinished(graph: Any) -> list[Any]:
    return [task for task in graph.get_state(THREAD).tasks if task.result is None]


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
    graph = graph_with(model, InMemorySaver())
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
    graph = graph_with(fumbling(plan, "nowhere"), InMemorySaver(), max_steps=8)
    out = run(graph, QUESTION, way, config=THREAD | {"max_concurrency": 1})
    assert len(checked(out["report"])["steps"]) == len(plan)


@both_ways
def test_what_is_kept_is_plain_json_and_in_nobodys_way(way: Way) -> None:
    saver = InMemorySaver()
    model = fumbling(CHAIN, FORCE_STEP)
    graph = graph_with(model, saver)
    cut_off(graph, model, way)
    stored = saver.get_tuple(THREAD)  # type: ignore[arg-type]
    assert stored is not None
    kept = [value for _, name, value in stored.pending_writes or [] if name.endswith(":call")]
    assert all(value["text"] for value in kept)
    assert [json.loads(json.dumps(value)) for value in kept] == kept
    snapshot = graph.get_state(THREAD)
    assert (snapshot.next, snapshot.values["results"]) == (("solve",), [])
