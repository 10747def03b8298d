"""One query on its way through the graph: the answer piece by piece, then its account."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage

from pb_graph.settings import Context

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

    from pb_graph.state import Input, Output, State
    from pb_graph.types import Report

    Graph = CompiledStateGraph[State, Context, Input, Output]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the answer, or ``""`` for a sign of life: a model call has come to its end."""

    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """The query is answered.

    Attributes:
        report: Its account.
        finish: ``stop``, or ``length`` when the answer was cut off at its cap.
    """

    report: Report
    finish: str


async def answer(
    graph: Graph, given: Input, context: Context, *, stream: bool
) -> AsyncGenerator[Piece | Done]:
    """Answer one query; the last thing said is `Done`.

    A piece cannot be taken back. When an attempt breaks off half-way and the answer begins anew,
    the new one follows after an empty line.

    Args:
        graph: Answers.
        given: The conversation.
        context: Settings that replace the graph's own, and what the query may cost in all.
        stream: Whether pieces are wanted.

    Raises:
        PlanAndBudgetError: As the graph.
    """
    modes: Any = ["custom", "values", *(["messages"] if stream else [])]
    report, last, shown = None, "stop", None
    run: Any = graph.astream(given, context=context, stream_mode=modes)
    async with aclosing(run) as parts:
        async for mode, data in parts:
            if mode == "values":
                report = data.get("report", report)
            elif mode == "custom" and data["event"] == "call":
                # A probe is meant to be cut, as the piece before it was: nothing of it is missing.
                last = "stop" if data["node"] == "probe" else data["finish"]
                yield Piece("")
            elif mode == "messages" and isinstance(data[0], AIMessage) and data[0].text:
                anew = "\n\n" if shown not in (None, data[0].id) else ""
                shown = data[0].id
                yield Piece(anew + str(data[0].text))
    assert report is not None  # noqa: S101 -- the last node either writes it or raises
    # Of an ending that was asked for, the report does not tell whether it was cut off, too.
    ended = report.get("finish", "forced")
    cut = (last if ended == "forced" else ended) == "length"
    yield Done(report, "length" if cut else "stop")


def usage_of(report: Report, given: str, written: str) -> dict[str, Any]:
    """The tokens of the whole query, under the names that a protocol has for input and output."""
    usage = report["usage"]
    return {
        f"{given}_tokens": usage["input_tokens"],
        f"{written}_tokens": usage["output_tokens"],
        "total_tokens": usage["input_tokens"] + usage["output_tokens"],
        f"{given}_tokens_details": {"cached_tokens": usage["cached_tokens"]},
        f"{written}_tokens_details": {"reasoning_tokens": usage["reasoning_tokens"]},
    }
