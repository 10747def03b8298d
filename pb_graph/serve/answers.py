"""One query on its way through the graph: the answer piece by piece, then its account."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pb_graph.runtime.answer_stream import MESSAGE_NAME
from pb_graph.settings import Context

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

    from pb_graph.state import Input, Output, Report, State

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
    report, finish, shown = None, "stop", None
    run: Any = graph.astream(given, context=context, stream_mode=modes)
    async with aclosing(run) as parts:
        async for mode, data in parts:
            if mode == "values":
                report = data.get("report", report)
            elif mode == "custom" and data["event"] == "call":
                finish = data["finish"]
                yield Piece("")
            elif mode == "messages" and (text := _text(data)):
                anew = "\n\n" if shown not in (None, data[0].id) else ""
                shown = data[0].id
                yield Piece(anew + text)
    assert report is not None  # noqa: S101 -- the last node either writes it or raises
    yield Done(report, "length" if finish == "length" else "stop")


def _text(data: Any) -> str:  # noqa: ANN401 -- a message and LangGraph's metadata
    message, _ = data
    return str(message.text) if message.name == MESSAGE_NAME else ""


@dataclass(frozen=True, slots=True)
class Wording:
    """A completion in the words of OpenAI's protocol.

    Attributes:
        model: As the request named it.
    """

    model: str
    _id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    _created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, done: Done) -> dict[str, Any]:
        """The completion in one piece."""
        message = {"role": "assistant", "content": done.report["answer"], "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": done.finish, "logprobs": None}
        return self._frame("chat.completion", [choice]) | {"usage": usage_of(done.report)}

    def chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        """A chunk of a stream."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return self._frame("chat.completion.chunk", [choice])

    def last(self, done: Done) -> dict[str, Any]:
        """The chunk behind the answer, which has the usage of the query."""
        return self._frame("chat.completion.chunk", []) | {"usage": usage_of(done.report)}

    def _frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self.model,
            "choices": choices,
        }


def usage_of(report: Report) -> dict[str, Any]:
    """The tokens of the whole query, as OpenAI names them."""
    usage = report["usage"]
    return {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["input_tokens"] + usage["output_tokens"],
        "prompt_tokens_details": {"cached_tokens": usage["cached_tokens"]},
        "completion_tokens_details": {"reasoning_tokens": usage["reasoning_tokens"]},
    }
