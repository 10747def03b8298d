"""How close waiting gets to the ideal: run `python tests/benchmarks/latency.py`.

Asks 256 questions, 64 at a time, of a server that takes a second (or ``--latency``) for each reply
and never fails. The ideal is the calls on the critical path, times the latency, times the questions
over the concurrency; the wall time is at most 1.15 times that at a second. At short latencies the
client's CPU is the limit, so its share is shown as well: CPU per model call, over that of as many
bare ``ChatOpenAI.ainvoke`` in the same run (at most 1.6). The last case has steps that do not need
each other, and shows the waves that this saves: with ``--queries 64 --concurrency 16``, since above
a hundred open connections httpcore's pool, whose work per call grows with their square, costs more
than a wave. ``--profile`` says where our CPU time goes.
"""

import argparse
import asyncio
import cProfile
import pstats
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph import Settings, build_graph
from tests.support.fault_server import CHAIN, serving

PARALLEL = (
    "First?",
    "Second? | from the first | after 1",
    "Third? | from the first | after 1",
    "Fourth? | from both | after 2, 3",
)
PLANNING = 2
"""Planner calls of a question: the plan, and its grades."""


@dataclass
class Measured:
    """What a run took."""

    wall: float
    cpu: float
    calls: int

    @property
    def cpu_per_call(self) -> float:
        """Milliseconds."""
        return self.cpu / self.calls * 1000


async def all_of(work: Callable[[int], Awaitable[int]], count: int, at_once: int) -> Measured:
    """Do ``count`` pieces of work, each of which says how many calls it made."""
    numbers = iter(range(count))

    async def worker() -> int:
        return sum([await work(number) for number in numbers])

    wall, cpu = time.perf_counter(), time.process_time()
    calls = sum(await asyncio.gather(*(worker() for _ in range(at_once))))
    return Measured(time.perf_counter() - wall, time.process_time() - cpu, calls)


def chat(url: str) -> ChatOpenAI:
    """The model of both sides."""
    return ChatOpenAI(model="m", base_url=url, api_key=SecretStr("sk-none"), timeout=120)


async def ours(url: str, queries: int, at_once: int) -> Measured:
    """Plan and budget, stepwise."""
    graph: Any = build_graph(chat(url), settings=Settings(execution="stepwise", plan_from=1))

    async def ask(number: int) -> int:
        report = (await graph.ainvoke({"question": f"What is {number} times 3?"}))["report"]
        if report["warnings"] or len(report["steps"]) != len(CHAIN):
            msg = f"not the way that was to be measured: {report}"
            raise RuntimeError(msg)
        return int(report["usage"]["calls"])

    await ask(0)  # imports, connections, compiled patterns
    return await all_of(ask, queries, at_once)


class Listener(BaseCallbackHandler):
    """Notes what the model was asked, and with which arguments."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[BaseMessage], dict[str, Any]]] = []

    def on_chat_model_start(
        self,
        _: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        invocation_params: dict[str, Any],
        **__: Any,  # noqa: ANN401
    ) -> None:
        """Note one call."""
        names = {"max_tokens", "extra_body"} & invocation_params.keys()
        self.asked.append((messages[0], {name: invocation_params[name] for name in names}))


async def bare(url: str, calls: int, at_once: int) -> Measured:
    """As many calls as the graph made, with the same messages and arguments."""
    model, listener = chat(url), Listener()
    graph: Any = build_graph(model, settings=Settings(execution="stepwise", plan_from=1))
    await graph.ainvoke({"question": "What is 0 times 3?"}, {"callbacks": [listener]})

    async def ask(number: int) -> int:
        messages, arguments = listener.asked[number % len(listener.asked)]
        await model.ainvoke(messages, **arguments)
        return 1

    await ask(0)
    return await all_of(ask, calls, at_once)


async def both(url: str, queries: int, at_once: int) -> tuple[Measured, Measured]:
    """One after the other in one loop, since LangChain's connections are tied to the first."""
    mine = await ours(url, queries, at_once)
    return mine, await bare(url, mine.calls, at_once)


def report(name: str, latency: float, waves: int, given: argparse.Namespace, plan: Any) -> Measured:  # noqa: ANN401
    """Measure and print one case."""
    with serving("--latency", str(latency), "--plan", *plan) as url:
        mine, theirs = asyncio.run(both(url, given.queries, given.concurrency))
    path = PLANNING + waves
    ideal = path * latency * given.queries / given.concurrency
    ratio = mine.cpu_per_call / theirs.cpu_per_call
    print(
        f"{name}, {latency * 1000:.0f} ms: {mine.wall:.1f} s for an ideal of {ideal:.1f} s "
        f"({path} calls one after another): {mine.wall / ideal:.3f}\n"
        f"    CPU per call {mine.cpu_per_call:.2f} ms, bare {theirs.cpu_per_call:.2f} ms: "
        f"{ratio:.2f} times (at most 1.6); the bare calls took {theirs.wall:.1f} s"
    )
    return mine


def profile(given: argparse.Namespace) -> None:
    """Print what our side spends its CPU on, most expensive first."""
    with serving("--latency", str(given.latency)) as url:
        profiler = cProfile.Profile()
        profiler.runcall(asyncio.run, ours(url, given.queries, given.concurrency))
    pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
    pstats.Stats(profiler).sort_stats("cumulative").print_stats(r"pb_graph|dspy", 45)


def main() -> None:
    """Print the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=256)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=float, default=None, help="seconds; 1 and 0.05 if none")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    if given.profile:
        given.latency = 0.05 if given.latency is None else given.latency
        profile(given)
        return
    for latency in (1.0, 0.05) if given.latency is None else (given.latency,):
        chain = report("four steps in a chain", latency, 4, given, CHAIN)
    waves = report("four steps in three waves", latency, 3, given, PARALLEL)
    print(f"three waves take {waves.wall / chain.wall:.2f} of the chain's time (ideal 0.83)")


if __name__ == "__main__":
    main()
