"""The endpoint of OpenAI's protocol: ``/v1/chat/completions``, ``/v1/models`` and ``/health``."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, Self, cast
from urllib.parse import urlsplit
from uuid import uuid4

from langchain_core.messages import AIMessage, convert_to_messages
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, Field, PositiveInt, PrivateAttr, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pb_graph import errors
from pb_graph.methods import METHODS
from pb_graph.settings import Context, Settings
from pb_graph.state import Input, Output, State
from pb_graph.types import Report

MAX_BODY = 10_000_000  # bytes of a request
_CLIENT_LEFT = 499  # nginx's number
_FINISHES = {"content_filter": "content_filter", "cut_off": "length"}  # by code of a warning
_INPUTS = ("reference", "instruction", "answer_format", "domain", "level")
_UNSUPPORTED = ("tools", "functions", "response_format", "stop")
_NOTHING: tuple[object, ...] = (None, [], {"type": "text"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A graph behind OpenAI's protocol."""

    graph: CompiledStateGraph[State, Context, Input, Output]
    api_key: str | None = None  # that clients must send; None: only this machine may ask

    def app(self) -> Starlette:
        """Return the ASGI application."""
        routes = [
            Route("/health", lambda _: _json({"status": "ok"})),
            Route("/v1/models", self.list_models),
            Route("/v1/models/{name:path}", self.list_models),
            Route("/v1/chat/completions", self.complete_chat, methods=["POST"]),
        ]
        # Starlette takes the handler of the nearest class.
        handled: Any = dict.fromkeys((HTTPException, errors.PlanAndBudgetError, Exception), _error)
        handled[ClientDisconnect] = lambda *_: Response(status_code=_CLIENT_LEFT)
        return Starlette(routes=routes, exception_handlers=handled)

    async def list_models(self, request: Request) -> Response:
        """List the methods, or show the model of a name: any name is served."""
        self._admit(request)
        shared = {"object": "model", "created": 0, "owned_by": "plan-and-budget"}
        if name := request.path_params.get("name"):
            return _json({"id": name, **shared})
        return _json({"object": "list", "data": [{"id": name, **shared} for name in METHODS]})

    async def complete_chat(self, request: Request) -> Response:
        """Answer a question, whole or as server-sent events. A disconnect ends the run."""
        self._admit(request)
        received = bytearray()
        async for part in request.stream():
            received += part
            if len(received) > MAX_BODY:
                raise HTTPException(413, f"the body has more than {MAX_BODY} bytes: send less")
        chat = ChatRequest.read(bytes(received))
        # A task: if a client leaves, LangGraph cannot clean up in the anyio scope of Starlette.
        events: asyncio.Queue[bytes] = asyncio.Queue()
        run = asyncio.create_task(self._run(chat, events.put_nowait))
        run.add_done_callback(lambda _: events.put_nowait(b""))
        leaving = asyncio.create_task(_cancel_without_client(run, request))
        first = await events.get()  # an error before the first model call ends has its own status
        leaving.cancel()
        if run.cancelled():
            raise ClientDisconnect
        if not first:
            return _json(chat.whole(run.result()))

        async def body() -> AsyncGenerator[bytes]:
            event = first
            try:
                yield chat.chunk({"role": "assistant", "content": ""})
                while event:
                    yield event
                    event = await events.get()
                try:
                    ending = chat.ending(run.result())
                except Exception as error:  # noqa: BLE001 -- told to the client
                    ending = b"data: %b\n\n" % bytes((await _error(request, error)).body)
                yield ending + b"data: [DONE]\n\n"
            finally:
                run.cancel()

        return StreamingResponse(body(), 200, {"cache-control": "no-cache"}, "text/event-stream")

    async def _run(self, chat: ChatRequest, tell: Callable[[bytes], None]) -> Report:
        shown, context = "", Context(settings=chat.to_settings(), limit=chat.limit)
        modes: Any = ["values", "messages", "custom"] if chat.stream else ["values"]
        run: Any = self.graph.astream(chat.to_input(), context=context, stream_mode=modes)
        async for mode, data in run:
            if mode == "values":
                state = data
            elif mode == "custom" and data["event"] == "call":
                tell(b": \n\n")  # a comment, which clients skip
            elif mode == "messages" and isinstance(data[0], AIMessage) and data[0].text:
                gap = "\n\n" if shown not in ("", data[0].id) else ""  # a forced ending follows
                shown = data[0].id or ""
                tell(chat.chunk({"content": gap + data[0].text}))
        return cast("Report", state["report"])  # the last node either writes it or raises

    def _admit(self, request: Request) -> None:
        """Admit what brings the key or, without a key, names this machine as host and origin."""
        if self.api_key is not None:
            scheme, _, key = request.headers.get("authorization", "").partition(" ")
            key = key.strip() if scheme.lower() == "bearer" else ""
            if not hmac.compare_digest(key.encode(), self.api_key.encode()):
                raise HTTPException(401, "the API key is missing or wrong")
            return
        hosts = request.url, urlsplit(request.headers.get("origin") or "//localhost")
        if not all(is_loopback(host.hostname or "") for host in hosts):
            msg = "without an API key the server accepts requests from this machine only"
            raise HTTPException(403, msg)


class ChatRequest(BaseModel, extra="allow"):
    """A request for a chat completion, and the JSON documents that answer it."""

    model: str  # a method, or any other name for the server's settings
    n: Literal[1] | None = None
    messages: list[dict[str, Any]] = Field(min_length=1)
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    max_completion_tokens: PositiveInt | None = None
    max_tokens: PositiveInt | None = None
    budget: PositiveInt | None = None  # a further total; a client can only lower the server's
    report: bool = False  # whether the completion carries the report
    _id: str = PrivateAttr(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    _created: int = PrivateAttr(default_factory=lambda: int(time.time()))

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Read a request; raise InputError if it is malformed or asks for a missing feature."""
        try:
            request = cls.model_validate_json(body)
        except ValidationError as error:
            raise errors.InputError(errors.describe_errors(error)) from error
        given = request.model_extra or {}
        if wrong := [name for name in _UNSUPPORTED if given.get(name) not in _NOTHING]:
            msg = f"{wrong[0]!r} is not supported here: leave it out"
            raise errors.InputError(msg)
        return request

    @property
    def limit(self) -> int | None:
        """Return the most completion tokens of the question: the smallest of the named limits."""
        caps = self.max_completion_tokens, self.max_tokens, self.budget
        return min(filter(None, caps), default=None)

    def to_input(self) -> Input:
        """Return the graph's input; raise InputError if the messages do not fit together."""
        given = self.model_extra or {}
        inputs = {name: given[name] for name in _INPUTS if given.get(name) is not None}
        try:
            messages = convert_to_messages([{"content": ""} | each for each in self.messages])
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            msg = "the messages do not follow OpenAI's protocol"
            raise errors.InputError(msg) from error
        return cast("Input", {"messages": messages, **inputs})

    def to_settings(self) -> Settings:
        """Return the settings of a method, or for any other name those of the server."""
        is_method = errors.did_you_mean(self.model, METHODS)  # a misspelled method is refused
        return Settings.read({"method": self.model}) if is_method else Settings()

    def whole(self, report: Report) -> dict[str, Any]:
        """Return the completion in one document."""
        message = {"role": "assistant", "content": report["answer"], "refusal": None}
        choice = {"message": message, "finish_reason": _finish_reason(report)}
        return self._frame("chat.completion", choice) | self._account(report)

    def chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        """Return the event of a chunk with the fields that it adds to the message."""
        return self._event({"delta": delta, "finish_reason": finish})

    def ending(self, report: Report) -> bytes:
        """Return the events of the last chunk and, if requested, of usage and report."""
        last = self.chunk({}, _finish_reason(report))
        if (self.stream_options or {}).get("include_usage") or self.report:
            last += self._event(**self._account(report))
        return last

    def _event(self, *choices: dict[str, Any], **more: object) -> bytes:
        document = self._frame("chat.completion.chunk", *choices) | more
        return f"data: {json.dumps(document)}\n\n".encode()

    def _frame(self, kind: str, *choices: dict[str, Any]) -> dict[str, Any]:
        rows = [{"index": 0, "logprobs": None, **choice} for choice in choices]
        frame = {"id": self._id, "object": kind, "created": self._created, "model": self.model}
        return {**frame, "choices": rows}

    def _account(self, report: Report) -> dict[str, Any]:
        usage = report["usage"]
        read, written = usage["input_token_details"], usage["output_token_details"]
        document = {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage["output_tokens"],
            "total_tokens": usage["total_tokens"],
            "prompt_tokens_details": {"cached_tokens": read["cache_read"]},
            "completion_tokens_details": {"reasoning_tokens": written["reasoning"]},
        }
        return {"usage": document} | ({"report": report} if self.report else {})


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine itself."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


async def _cancel_without_client(run: asyncio.Task[Report], request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    run.cancel()


async def _error(_: Request, error: Exception) -> Response:
    """Answer with an error in OpenAI's names; its clients are told not to retry the request."""
    status, kind, code, message = 502, "server_error", "model_unavailable", str(error)
    report = {}
    if isinstance(error, HTTPException | errors.InputError):
        kind, code = "invalid_request_error", ""
        status, message = getattr(error, "status_code", 400), getattr(error, "detail", message)
        if status == HTTPStatus.UNAUTHORIZED:
            kind, code = "authentication_error", "invalid_api_key"
    elif isinstance(error, errors.NoAnswerError):
        code, report = "no_answer", {"report": error.report}
    elif not isinstance(error, errors.PlanAndBudgetError):
        logging.getLogger(__name__).error("a request failed", exc_info=error)
        status, code, message = 500, "", "the server failed; its log says why"
    document = {"message": message, "type": kind, "param": None, "code": code or None}
    once = {"x-should-retry": "false"} if status >= HTTPStatus.INTERNAL_SERVER_ERROR else {}
    return _json({"error": document, **report}, status, **(getattr(error, "headers", None) or once))


def _json(document: Mapping[str, Any], status: int = 200, **headers: str) -> Response:
    """Return a JSON response in ASCII, because a model's text may not be valid UTF-8."""
    return Response(json.dumps(document), status, headers, media_type="application/json")


def _finish_reason(report: Report) -> str:
    codes = {warning["code"] for warning in report["warnings"]}
    return next((reason for code, reason in _FINISHES.items() if code in codes), "stop")
