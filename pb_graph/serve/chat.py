"""Read requests of OpenAI's chat completions, and write completions or chunks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast
from uuid import uuid4

from langchain_core.messages import convert_to_messages
from pydantic import BaseModel, Field, PositiveInt, ValidationError

from pb_graph.errors import InputError, describe_errors, did_you_mean
from pb_graph.methods import METHODS
from pb_graph.settings import Settings
from pb_graph.state import Input
from pb_graph.types import Report

_INPUTS = ("reference", "instruction", "answer_format", "domain", "level")
_UNSUPPORTED = ("tools", "response_format", "stop")
_NOTHING: tuple[object, ...] = (None, [], {"type": "text"})


class ChatRequest(BaseModel, extra="allow"):
    """A request for a chat completion.

    Attributes:
        model: A method, or any other name for the server's settings.
        budget: A further total; a client can only lower the server's.
        report: Whether the completion carries the report.
    """

    model: str
    n: Literal[1] | None = None
    messages: list[dict[str, Any]] = Field(min_length=1)
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    max_completion_tokens: PositiveInt | None = None
    max_tokens: PositiveInt | None = None
    budget: PositiveInt | None = None
    report: bool = False

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Read the JSON document of a client.

        Raises:
            InputError: If the body is malformed or asks for an unsupported feature.
        """
        try:
            request = cls.model_validate_json(body)
        except ValidationError as error:
            raise InputError(describe_errors(error)) from error
        extra = request.model_extra or {}
        if wrong := [name for name in _UNSUPPORTED if extra.get(name) not in _NOTHING]:
            msg = f"{wrong[0]!r} is not supported here: leave it out"
            raise InputError(msg)
        return request

    @property
    def limit(self) -> int | None:
        """Return the most completion tokens of the question: the smallest of the named limits."""
        caps = (self.max_completion_tokens, self.max_tokens, self.budget)
        return min((tokens for tokens in caps if tokens is not None), default=None)

    def to_input(self) -> Input:
        """Return the graph's input: the conversation and the other inputs of the question.

        Raises:
            InputError: If the messages do not fit together.
        """
        messages = [{"content": ""} | message for message in self.messages]
        extra = self.model_extra or {}
        rest = {name: extra[name] for name in _INPUTS if extra.get(name) is not None}
        try:
            return cast("Input", {"messages": convert_to_messages(messages), **rest})
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            msg = "the messages do not follow OpenAI's protocol"
            raise InputError(msg) from error

    def to_settings(self) -> Settings:
        """Return the settings that the model's name stands for.

        ``vanilla`` is a method. Any other name, such as ``gpt-5-mini``, stands for the server's
        settings.

        Raises:
            InputError: If the name is a misspelled method.
        """
        is_method = self.model in METHODS or did_you_mean(self.model, METHODS)
        return Settings.read({"method": self.model}) if is_method else Settings()


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

    def chunk(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        """Return a chunk of a stream with the fields that it adds to the message."""
        return self._frame("chat.completion.chunk", {"delta": delta, "finish_reason": None})

    def ending(self, report: Report) -> list[dict[str, Any]]:
        """Return the last chunk and, if requested, a chunk with usage and report."""
        choice = {"delta": {}, "finish_reason": _finish_reason(report)}
        last = self._frame("chat.completion.chunk", choice)
        if (self.request.stream_options or {}).get("include_usage") or self.request.report:
            return [last, self._frame("chat.completion.chunk") | self._account(report)]
        return [last]

    def _frame(self, kind: str, *choices: dict[str, Any]) -> dict[str, Any]:
        frame = {"id": self._id, "object": kind, "created": self._created}
        rows = [{"index": 0, "logprobs": None, **choice} for choice in choices]
        return {**frame, "model": self.request.model, "choices": rows}

    def _account(self, report: Report) -> dict[str, Any]:
        usage = report["usage"]
        cached = usage["input_token_details"]["cache_read"]
        reasoning = usage["output_token_details"]["reasoning"]
        document = {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage["output_tokens"],
            "total_tokens": usage["total_tokens"],
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }
        return {"usage": document} | ({"report": report} if self.request.report else {})


def _finish_reason(report: Report) -> str:
    codes = {warning["code"] for warning in report["warnings"]}
    reasons = {"content_filter": "content_filter", "cut_off": "length"}
    return next((reason for code, reason in reasons.items() if code in codes), "stop")
