"""OpenAI's chat completions: reads a request, and writes the completion or its chunks."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, cast
from uuid import uuid4

from langchain_core.messages import convert_to_messages
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from pb_graph.errors import InputError, describe_errors, did_you_mean
from pb_graph.methods import METHODS
from pb_graph.settings import Settings, value_of
from pb_graph.state import Input

if TYPE_CHECKING:
    from pb_graph.types import Report

_INPUTS = frozenset(Input.__annotations__) - {"messages", "question"}
# Fields that the endpoint does not support, with the values that ask for nothing.
_UNSUPPORTED: Mapping[str, tuple[object, ...]] = {
    "n": (1,),
    "tools": ([],),
    "functions": ([],),
    "response_format": ({"type": "text"},),
    "logprobs": (False,),
    "stop": ([],),
}


class _Message(BaseModel):
    """A message of OpenAI's protocol; further fields are ignored."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


class _StreamOptions(BaseModel):
    include_usage: bool = False


class ChatRequest(BaseModel):
    """A request for a chat completion.

    Attributes:
        model: A method, with settings behind it, or any other name for the server's settings.
        report: Whether the completion carries the report.
    """

    model_config = ConfigDict(extra="allow")

    model: str
    messages: list[_Message] = Field(min_length=1)
    stream: bool = False
    stream_options: _StreamOptions = _StreamOptions()
    max_completion_tokens: PositiveInt | None = None
    max_tokens: PositiveInt | None = None
    report: bool = False

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Read the JSON document of a client.

        Raises:
            InputError: The body is malformed, or asks for what the endpoint does not support.
        """
        try:
            fields = json.loads(body)
            if isinstance(fields, dict):
                fields = {name: value for name, value in fields.items() if value is not None}
            request = cls.model_validate(fields)
        except ValidationError as error:
            raise InputError(describe_errors(error)) from error
        except (ValueError, RecursionError) as error:
            msg = "the body is not JSON"
            raise InputError(msg) from error
        extra = request.model_extra or {}
        for name, plain in _UNSUPPORTED.items():
            if name in extra and extra[name] not in plain:
                msg = f"{name!r} is not supported here: leave it out"
                raise InputError(msg)
        return request

    @property
    def total(self) -> int | None:
        """Completion tokens of the whole question: the smallest total that the request names."""
        named = (self.max_completion_tokens, self.max_tokens)
        return min((tokens for tokens in named if tokens is not None), default=None)

    def to_input(self) -> Input:
        """Return the graph's input: the conversation, and what else belongs to the question.

        Raises:
            InputError: The messages do not fit together.
        """
        messages = [
            {"content": ""} | message.model_dump(exclude_none=True) for message in self.messages
        ]
        extra = self.model_extra or {}
        rest = {name: extra[name] for name in _INPUTS if name in extra}
        try:
            return cast("Input", {"messages": convert_to_messages(messages), **rest})
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            msg = "the messages are not in the form of OpenAI's protocol"
            raise InputError(msg) from error

    def to_settings(self) -> Settings:
        """Return the settings that the model's name stands for.

        ``vanilla`` is a method, and ``plan_and_budget:execution=stepwise,schedule=cosine`` a method
        with settings. Any other name, such as ``gpt-5-mini``, stands for the server's settings.

        Raises:
            InputError: The name is nearly a method's, or a setting behind the colon is wrong.
        """
        name, _, assignments = self.model.partition(":")
        if name in METHODS:
            return unattended_settings({"method": name, **_read_assignments(assignments)})
        if "=" in assignments or did_you_mean(name, METHODS):
            return Settings.read({"method": name})  # which says what methods there are
        return Settings()


@dataclass(frozen=True, slots=True)
class Completion:
    """The completion that answers a request, as JSON documents of the protocol."""

    request: ChatRequest
    _id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    _created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, report: Report) -> dict[str, Any]:
        """Return the completion in one document."""
        message = {"role": "assistant", "content": report["answer"], "refusal": None}
        choice = {"message": message, "finish_reason": _finish_reason(report)}
        return self._frame("chat.completion", choice) | self._account(report)

    def chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        """Return a chunk that adds a delta to the message; the last of them says its finish."""
        choice = {"delta": delta, "finish_reason": finish}
        # OpenAI's own chunks announce a usage that comes at the end.
        usage = {"usage": None} if self.request.stream_options.include_usage else {}
        return self._frame("chat.completion.chunk", choice) | usage

    def ending(self, report: Report) -> Iterator[dict[str, Any]]:
        """Yield the last chunk and, where they are wanted, one with usage and report."""
        yield self.chunk({}, _finish_reason(report))
        if self.request.stream_options.include_usage or self.request.report:
            yield self._frame("chat.completion.chunk") | self._account(report)

    def _frame(self, kind: str, *choices: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self.request.model,
            "choices": [{"index": 0, "logprobs": None, **choice} for choice in choices],
        }

    def _account(self, report: Report) -> dict[str, Any]:
        usage = report["usage"]
        document = {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage["output_tokens"],
            "total_tokens": usage["input_tokens"] + usage["output_tokens"],
            "prompt_tokens_details": {"cached_tokens": usage["cached_tokens"]},
            "completion_tokens_details": {"reasoning_tokens": usage["reasoning_tokens"]},
        }
        return {"usage": document} | ({"report": report} if self.request.report else {})


def unattended_settings(fields: Mapping[str, Any]) -> Settings:
    """Return settings for a run that nobody can answer while it goes.

    Raises:
        InputError: A field is wrong, or the run would pause for a person.
    """
    settings = Settings.read(fields)
    if settings.review_plan:
        msg = "review_plan pauses for a host that can answer: use the graph from Python"
        raise InputError(msg)
    return settings


def _read_assignments(text: str) -> dict[str, Any]:
    """Read ``name=value,name=value``; values are JSON, or else text, with any commas."""
    fields: dict[str, Any] = {}
    for assignment in re.split(r",\s*(?=\w+=)", text) if text else ():
        field, equals, value = assignment.partition("=")
        if not equals:
            msg = f"settings behind a model's name are NAME=VALUE, not {assignment!r:.100}"
            raise InputError(msg)
        fields[field.strip()] = value_of(value)
    return fields


def _finish_reason(report: Report) -> str:
    return "length" if report["finish"] == "length" else "stop"
