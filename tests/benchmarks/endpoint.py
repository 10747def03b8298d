"""What the endpoint adds: time to the first token against the graph's own, and whether T is true.

Run with ``python tests/benchmarks/endpoint.py [QUESTIONS]``. The model is a scripted server in a
process of its own. Good: a ratio below 1.05 for plan_and_budget, and as many
equal accounts as questions.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import openai
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph import Context, Settings, build_graph
from tests.support.endpoints import endpoint_of
from tests.support.fault_server import serving

METHODS = ("vanilla", "plan_and_budget")
LATENCY = 0.2  # seconds before the model begins to write
PAIRS = 30
ASKED = "How many pens does $14 buy at 3 for $2?"


async def first(pieces: AsyncIterator[str]) -> float:
    """Seconds until the first piece of an answer; the rest is read, too."""
    began, found = time.perf_counter(), 0.0
    async for piece in pieces:
        if piece and not found:
            found = time.perf_counter() - began
    return found


async def by_graph(graph: Any, method: str) -> AsyncIterator[str]:  # noqa: ANN401
    """The graph's own stream."""
    context = Context(settings=Settings.read({"method": method}))
    given: Any = {"messages": [HumanMessage(ASKED)]}
    async for message, _ in graph.astream(given, context=context, stream_mode="messages"):
        if isinstance(message, AIMessage):
            yield str(message.text)


async def by_endpoint(client: openai.AsyncOpenAI, method: str) -> AsyncIterator[str]:
    """The same through OpenAI's client."""
    stream = await client.chat.completions.create(
        model=method, messages=[{"role": "user", "content": ASKED}], stream=True
    )
    async for chunk in stream:
        yield "".join(choice.delta.content or "" for choice in chunk.choices)


async def accounts(client: openai.AsyncOpenAI, questions: int) -> int:
    """How many answers' usage is that of their report."""
    room = asyncio.Semaphore(16)

    async def one(method: str) -> bool:
        async with room:
            said: Any = await client.chat.completions.create(
                model=method,
                messages=[{"role": "user", "content": ASKED}],
                extra_body={"report": True},
            )
        return bool(said.usage.completion_tokens == said.report["usage"]["output_tokens"] > 0)

    return sum(await asyncio.gather(*(one(METHODS[n % 2]) for n in range(questions))))


async def measure(url: str, endpoint: str, questions: int) -> None:
    """Print the ratios, and the accounts."""
    graph = build_graph(ChatOpenAI(model="m", base_url=url, api_key=SecretStr("x")))
    async with openai.AsyncOpenAI(base_url=endpoint, api_key="none") as client:
        for method in METHODS:
            ratios = []
            for _ in range(PAIRS):
                own = await first(by_graph(graph, method))
                ratios.append(await first(by_endpoint(client, method)) / own)
            print(f"{method}: time to the first token {statistics.median(ratios):.3f} times")
        print(f"{await accounts(client, questions)} of {questions} accounts equal the report")


def main() -> None:
    """Start the servers, and measure."""
    questions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    os.environ.setdefault("OPENAI_API_KEY", "none")
    with serving("--latency", str(LATENCY)) as url:
        model = ChatOpenAI(model="m", base_url=url, api_key=SecretStr("x"))
        with endpoint_of(model) as endpoint:
            asyncio.run(measure(url, endpoint, questions))


if __name__ == "__main__":
    main()
