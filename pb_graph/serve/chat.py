"""Chat completions: what a client asks for, and the answer in the words of that protocol."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from uuid import uuid4

from pydantic import BaseModel, Field, PositiveInt

from pb_graph.serve.answers import usage_of
from pb_graph.serve.requests import MOST_MESSAGES, Request

if TYPE_CHECKING:
    from pb_graph.serve.answers import Done
    from pb_graph.state import Input


class _Message(BaseModel):
    """A message of OpenAI's protocol; what else stands in it is left out."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


class _StreamOptions(BaseModel):
    include_usage: bool = False


class ChatRequest(Request):
    """One chat completion."""

    cannot = {  # noqa: RUF012 -- as the base class says
        "n": (1,),
        "tools": ([],),
        "tool_choice": ("none", "auto"),
        "functions": ([],),
        "function_call": ("none", "auto"),
        "response_format": ({"type": "text"},),
        "logprobs": (False,),
        "top_logprobs": (0,),
        "stop": ([],),
        "audio": (),
        "modalities": (["text"],),
    }
    totals = ("max_completion_tokens", "max_tokens")

    messages: list[_Message] = Field(min_length=1, max_length=MOST_MESSAGES)
    stream_options: _StreamOptions = _StreamOptions()
    max_completion_tokens: PositiveInt | None = None
    max_tokens: PositiveInt | None = None

    @property
    def given(self) -> Input:
        """What the graph is given."""
        said = [message.model_dump(exclude_none=True) for message in self.messages]
        for message in said:
            message.setdefault("content", "")
        return self._input(said, "messages")

    @property
    def wording(self) -> ChatWording:
        """A new answer to it."""
        return ChatWording(self)


@dataclass(frozen=True, slots=True)
class ChatWording:
    """A completion in the words of the protocol."""

    closing: ClassVar[bytes] = b"data: [DONE]\n\n"

    asked: ChatRequest
    _id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    _created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, done: Done) -> dict[str, Any]:
        """The completion in one piece."""
        message = {"role": "assistant", "content": done.report["answer"], "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": done.finish, "logprobs": None}
        return self._frame("chat.completion", [choice]) | self._account(done)

    def begin(self) -> Iterator[dict[str, Any]]:
        """Who speaks."""
        yield self._chunk({"role": "assistant", "content": ""})

    def piece(self, text: str) -> Iterator[dict[str, Any]]:
        """A chunk of text."""
        yield self._chunk({"content": text})

    def end(self, done: Done) -> Iterator[dict[str, Any]]:
        """How it ended and, where they are wanted, the usage of the query and the report."""
        yield self._chunk({}, done.finish)
        if self.asked.stream_options.include_usage or self.asked.report:
            yield self._frame("chat.completion.chunk", []) | self._account(done)

    def failed(self, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The error as it would be without a stream."""
        yield dict(body)

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        """A chunk before the usage; where that is wanted, OpenAI announces it so."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        announced = {"usage": None} if self.asked.stream_options.include_usage else {}
        return self._frame("chat.completion.chunk", [choice]) | announced

    def _frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self.asked.model,
            "choices": choices,
        }

    def _account(self, done: Done) -> dict[str, Any]:
        report = {"report": done.report} if self.asked.report else {}
        return {"usage": usage_of(done.report, "prompt", "completion")} | report
