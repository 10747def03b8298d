"""What the graph costs beside its model calls: run `python tests/benchmarks/graph_overhead.py`.

Compares plan_and_budget, stepwise, on four sub-questions and a model that answers at once, with a
bare LangGraph of the same nodes and edges whose functions do nothing: one query after the other,
sync and async, and 500 at the same time. Prints milliseconds per query and the ratios.
"""
# ruff: noqa: ANN401 -- compiled graphs' types say little

import asyncio
import json
import operator
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from pb_graph import Settings, build_graph

STEPS, QUERIES, AT_ONCE, REPETITIONS = 4, 30, 500, 5
QUESTION = {"question": "How many pens does $14 buy at 3 for $2?", "level": 3}
# One reply that reads as a plan, as grades, and as an answer.
REPLY = {
    "steps": [f"What is part {number}?" for number in range(1, STEPS + 1)],
    "level": 3,
    "levels": [3] * STEPS,
    "credits": [25] * STEPS,
}
USAGE: Any = {"input_tokens": 300, "output_tokens": 60, "total_tokens": 360}


class InstantChat(BaseChatModel):
    """Gives the same reply at once, whatever it is asked."""

    @property
    def _llm_type(self) -> str:
        return "instant"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:  # noqa: ARG002
        message = AIMessage(json.dumps(REPLY), usage_metadata=USAGE)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


class BareState(TypedDict):
    """As little as the same way through a graph needs."""

    question: str
    done: Annotated[list[int], operator.add]


def bare_graph(*, with_async: bool) -> Any:
    """Return the same nodes and edges, with nothing in the nodes."""

    def nothing(given: Any) -> dict[str, Any]:
        return {"done": [given["index"]] if "index" in given else []}

    async def anothing(given: Any) -> dict[str, Any]:
        return nothing(given)

    def dispatch(state: BareState) -> str | list[Send]:
        index = len(state["done"])
        return [Send("solve", {"index": index})] if index < STEPS else "synthesize"

    builder: Any = StateGraph(BareState)
    for name in ("intake", "plan", "estimate", "allocate", "solve", "synthesize", "finish"):
        builder.add_node(name, anothing if with_async else nothing)
    builder.add_edge(START, "intake")
    builder.add_conditional_edges("intake", lambda _: "plan", ["plan"])
    builder.add_conditional_edges("plan", lambda _: "estimate", ["estimate"])
    builder.add_edge("estimate", "allocate")
    builder.add_conditional_edges("allocate", dispatch, ["solve", "synthesize"])
    builder.add_edge("solve", "allocate")
    builder.add_edge("synthesize", "finish")
    builder.add_edge("finish", END)
    return builder.compile()


def blocking(graph: Any) -> float:
    """Return the seconds of a query, one after the other."""
    begin = perf_counter()
    for _ in range(QUERIES):
        graph.invoke(QUESTION)
    return (perf_counter() - begin) / QUERIES


async def awaited(graph: Any) -> float:
    """Return the seconds of a query, one after the other in an event loop."""
    begin = perf_counter()
    for _ in range(QUERIES):
        await graph.ainvoke(QUESTION)
    return (perf_counter() - begin) / QUERIES


async def concurrent(graph: Any) -> float:
    """Return the seconds of a query, all at the same time."""
    begin = perf_counter()
    await asyncio.gather(*(graph.ainvoke(QUESTION) for _ in range(AT_ONCE)))
    return (perf_counter() - begin) / AT_ONCE


def compare(name: str, seconds: Callable[[Any], float], ours: Any, bare: Any, times: int) -> None:
    """Print both, in turns, and their ratio."""
    pairs = [(seconds(ours), seconds(bare)) for _ in range(times)]
    mine, theirs = (median(column) * 1000 for column in zip(*pairs, strict=True))
    print(f"{name:24} {mine:6.2f} ms, bare {theirs:5.2f} ms: {mine / theirs:5.2f} times")


def main() -> None:
    """Print three comparisons."""
    chosen: Any = {"execution": "stepwise", "plan_from": 1, "planning": "two_call"}
    ours: Any = build_graph(InstantChat(), settings=Settings(schedule="cosine", **chosen))
    report = ours.invoke(QUESTION)["report"]
    assert report["usage"]["calls"] == STEPS + 1, report  # the plan brings its grades
    assert not report["warnings"], report
    bare, abare = bare_graph(with_async=False), bare_graph(with_async=True)
    compare("invoke", blocking, ours, bare, REPETITIONS)
    compare("ainvoke", lambda graph: asyncio.run(awaited(graph)), ours, abare, REPETITIONS)
    name = f"{AT_ONCE} concurrent ainvoke"
    compare(name, lambda graph: asyncio.run(concurrent(graph)), ours, abare, 3)


if __name__ == "__main__":
    main()
