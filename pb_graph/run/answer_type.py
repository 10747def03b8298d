"""The type of the final answer: said in the prompt, read tolerantly, enforced by who can."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_TEXT, _MAX_STARTS = 40_000, 200
_CHARACTERS_PER_TOKEN = 4


class AnswerType:
    """A pydantic model that the final answer follows.

    A small model that may write nothing but JSON cannot work anything out. So a reply works first
    and ends with the object; only the call that states what an unfinished or unreadable reply came
    to is held to the schema by the server.

    Raises:
        InputError: It is no pydantic model.
    """

    def __init__(self, model: type[BaseModel]) -> None:
        given: object = model
        if not (isinstance(given, type) and issubclass(given, BaseModel)):
            msg = f"response_format is a pydantic model (a class), not {model!r:.100}"
            raise InputError(msg)
        self._model = model

    @cached_property
    def schema(self) -> dict[str, Any]:
        """For servers that constrain decoding."""
        return self._model.model_json_schema()

    @property
    def form(self) -> str:
        """Return the form of the answer, for the prompt."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        return f"End with the final answer as one JSON object that follows this schema: {schema}"

    @property
    def reserve(self) -> int:
        """Tokens to keep back for writing it, about as many as its schema has."""
        return len(self.form) // _CHARACTERS_PER_TOKEN

    def read(self, text: str) -> dict[str, Any] | None:
        """The last object in a text that fits, as plain JSON; None when there is none."""
        fitting = None
        for found in _objects(text[-_MAX_TEXT:]):
            try:
                fitting = self._model.model_validate(found).model_dump(mode="json")
            except ValidationError:
                continue
        return fitting


def _objects(text: str) -> Iterator[object]:
    """The JSON objects and lists in a text, one within another not counted."""
    decoder, at = json.JSONDecoder(strict=False), 0
    for _ in range(_MAX_STARTS):
        starts = [found for found in (text.find("{", at), text.find("[", at)) if found >= 0]
        if not starts:
            return
        at = min(starts)
        try:
            found, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        yield found
