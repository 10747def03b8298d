"""The Responses protocol: what a client asks for, and the answer in its words. We store nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from uuid import uuid4

from pydantic import BaseModel, Field, PositiveInt

from pb_graph.serve.answers import usage_of
from pb_graph.serve.requests import MOST_MESSAGES, Request, RequestError

if TYPE_CHECKING:
    from pb_graph.serve.answers import Done
    from pb_graph.state import Input

_Items = Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_MESSAGES)]


class _Plain(BaseModel):
    type: Literal["text"] = "text"


class _Text(BaseModel):
    format: _Plain = _Plain()


class ResponsesRequest(Request):
    """One response."""

    cannot = {  # noqa: RUF012 -- as the base class says
        "tools": ([],),
        "tool_choice": ("none", "auto"),
        "previous_response_id": (),
        "conversation": (),
        "prompt": (),
        "background": (False,),
        "top_logprobs": (0,),
    }
    totals = ("max_output_tokens",)

    input: str | _Items
    instructions: str | None = None
    max_output_tokens: PositiveInt | None = None
    text: _Text = _Text()

    @property
    def given(self) -> Input:
        """What the graph is given."""
        system = [{"role": "system", "content": self.instructions}] if self.instructions else []
        alone = [{"role": "user", "content": self.input}]
        items = alone if isinstance(self.input, str) else self.input
        return self._input(system + [said for item in items for said in _messages(item)], "input")

    @property
    def wording(self) -> ResponsesWording:
        """A new answer to it."""
        return ResponsesWording(self)


def _messages(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """An item of the input as chat completions have it; what a model thought is left out."""
    match item:
        case {"type": "reasoning"}:
            return []
        case {"type": "function_call", "call_id": name, "name": _, "arguments": _}:
            function = {part: item[part] for part in ("name", "arguments")}
            made = {"id": name, "type": "function", "function": function}
            return [{"role": "assistant", "content": "", "tool_calls": [made]}]
        case {"type": "function_call_output", "call_id": name, "output": said}:
            return [{"role": "tool", "tool_call_id": name, "content": _content(said)}]
        case {"role": "user" | "assistant" | "system" | "developer" as role, "content": said}:
            return [{"role": role, "content": _content(said)}]
    msg = "an input item has a role (user, assistant, system, developer) and a content; "
    msg += f"of type {item.get('type')!r:.100} it is not supported here"
    raise RequestError(msg, "input")


def _content(said: Any) -> Any:  # noqa: ANN401 -- text, or whatever stands in its place
    return [_block(block) for block in said] if isinstance(said, list) else said


def _block(block: Any) -> Any:  # noqa: ANN401
    match block:
        case {"type": "input_text" | "output_text", "text": text} | {"refusal": text}:
            return {"type": "text", "text": text}
        case {"type": "input_image", "image_url": str(url)}:
            detail = {"detail": block["detail"]} if block.get("detail") else {}
            return {"type": "image_url", "image_url": {"url": url, **detail}}
        case {"type": "input_file"}:
            known = ("file_data", "file_id", "filename")
            return {"type": "file", "file": {part: block[part] for part in known if part in block}}
    return block


@dataclass(frozen=True, slots=True)
class ResponsesWording:
    """A response in the words of the protocol."""

    closing: ClassVar[bytes] = b""

    asked: ResponsesRequest
    _key: str = field(default_factory=lambda: uuid4().hex)
    _created: int = field(default_factory=lambda: int(time.time()))
    _number: Iterator[int] = field(default_factory=count)
    _said: list[str] = field(default_factory=list)

    def whole(self, done: Done) -> dict[str, Any]:
        """The response in one piece."""
        cut = done.finish == "length"
        return self._response(
            "incomplete" if cut else "completed",
            incomplete_details={"reason": "max_output_tokens"} if cut else None,
            output=[self._item(done.report["answer"], "incomplete" if cut else "completed")],
            usage=usage_of(done.report, "input", "output"),
            **({"report": done.report} if self.asked.report else {}),
        )

    def begin(self) -> Iterator[dict[str, Any]]:
        """The response and its only item, which are empty still."""
        for kind in ("created", "in_progress"):
            yield self._event(kind, response=self._response("in_progress"))
        empty = {**self._item("", "in_progress"), "content": []}
        yield self._event("output_item.added", output_index=0, item=empty)
        yield self._of_text("content_part.added", part=_part(""))

    def piece(self, text: str) -> Iterator[dict[str, Any]]:
        """What is added to its text."""
        self._said.append(text)
        yield self._of_text("output_text.delta", delta=text, logprobs=[])

    def end(self, done: Done) -> Iterator[dict[str, Any]]:
        """What was said, once more, and the whole."""
        text, whole = "".join(self._said), self.whole(done)
        yield self._of_text("output_text.done", text=text, logprobs=[])
        yield self._of_text("content_part.done", part=_part(text))
        item = self._item(text, whole["status"])
        yield self._event("output_item.done", output_index=0, item=item)
        yield self._event(whole["status"], response=whole)

    def failed(self, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The response with its error."""
        error = {"code": "server_error", "message": body["error"]["message"]}
        report = {name: body[name] for name in ("report",) if name in body}
        yield self._event("failed", response=self._response("failed", error=error, **report))

    def _response(self, status: str, **known: Any) -> dict[str, Any]:  # noqa: ANN401
        return {
            "id": f"resp_{self._key}",
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": self.asked.model,
            "output": [],
            "error": None,
            "incomplete_details": None,
            "parallel_tool_calls": False,
            "tool_choice": "none",
            "tools": [],
            "usage": None,
            **known,
        }

    def _item(self, text: str, status: str) -> dict[str, Any]:
        said = {"type": "message", "role": "assistant", "content": [_part(text)]}
        return {"id": f"msg_{self._key}", "status": status, **said}

    def _of_text(self, kind: str, **known: Any) -> dict[str, Any]:  # noqa: ANN401
        place = {"item_id": f"msg_{self._key}", "output_index": 0, "content_index": 0}
        return self._event(kind, **place, **known)

    def _event(self, kind: str, **known: Any) -> dict[str, Any]:  # noqa: ANN401
        return {"type": f"response.{kind}", "sequence_number": next(self._number), **known}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
