"""What all requests for an answer have in common: how a body is read, and our headers beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, cast

from langchain_core.messages import convert_to_messages
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from pb_graph.errors import InputError, describe_errors
from pb_graph.state import Input

MOST_MESSAGES = 1000
_HEADERS = {"x-pb-budget": "budget", "x-pb-report": "report"}
_OF_THE_QUESTION = frozenset(Input.__annotations__) - {"messages", "question", "budget"}


class RequestError(InputError):
    """The body cannot be used; ``param`` says which field of it, where one is to blame."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class Request(BaseModel):
    """A request for an answer.

    Attributes:
        model: A method or a settings file, with settings behind it.
        budget: The header's total; see `total`.
        report: Whether the reply is to carry the report.
    """

    model_config = ConfigDict(extra="allow")

    # What a reply of ours cannot do, and the values that ask for nothing.
    cannot: ClassVar[Mapping[str, Sequence[object]]]
    # Fields that bound what the whole query may cost.
    totals: ClassVar[tuple[str, ...]]

    model: str = Field(max_length=2000)
    stream: bool = False
    budget: PositiveInt | None = None
    report: bool = False

    @classmethod
    def read(cls, body: bytes, headers: Mapping[str, str]) -> Self:
        """The request; a header stands for the field of its name.

        Raises:
            RequestError: It is malformed, or wants what this endpoint cannot do.
        """
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError) as error:
            msg = "the body is not JSON"
            raise RequestError(msg) from error
        if not isinstance(fields, dict):
            msg = "the body is no JSON object"
            raise RequestError(msg)
        fields = {name: value for name, value in fields.items() if value is not None}
        for name, plain in cls.cannot.items():
            if name in fields and fields[name] not in plain:
                msg = f"{name!r} is not supported here: leave it out"
                raise RequestError(msg, name)
        fields |= {name: headers[header] for header, name in _HEADERS.items() if header in headers}
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            place = error.errors(include_url=False, include_input=False)[0]["loc"]
            raise RequestError(describe_errors(error), str(place[0]) if place else None) from error

    @property
    def total(self) -> int | None:
        """Completion tokens of the whole query; the smallest total that was named, if any was."""
        named = [getattr(self, name) for name in ("budget", *self.totals)]
        return min((tokens for tokens in named if tokens is not None), default=None)

    @property
    def ignored(self) -> list[str]:
        """Fields that nothing is done with, such as a temperature: that is the model's own."""
        extra = self.model_extra or {}
        return sorted(set(extra) - _OF_THE_QUESTION - set(self.cannot))

    def _input(self, said: list[dict[str, Any]], field: str) -> Input:
        """What the graph is given: the conversation, and what else belongs to the question.

        Raises:
            RequestError: The messages do not fit together.
        """
        extra = self.model_extra or {}
        rest = {name: extra[name] for name in _OF_THE_QUESTION if name in extra}
        try:
            return cast("Input", {"messages": convert_to_messages(said), **rest})
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            msg = "the messages are not in the form of OpenAI's protocol"
            raise RequestError(msg, field) from error
