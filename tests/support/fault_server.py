"""An OpenAI-compatible server on loopback that plans, answers, and fails on command.

It speaks chat completions, plain and as server-sent events, with structured output and usage. Each
fault is scripted per request, so that a test is the same each time. A token is a word here.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
import re
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from langchain_core.messages import HumanMessage

from tests.support.chat_model import Call, call_of, planned

Fault = Literal[
    "rate_limit",
    "no_credit",
    "unavailable",
    "reset_before",
    "stall",
    "drip",
    "no_choices",
    "half_stream",
    "empty_at_cap",
    "no_usage",
    "unknown_model",
    "bad_key",
    "context_too_long",
]
"""What can go wrong with one request."""

Script = Callable[["Request"], Fault | None]
"""Decides what goes wrong with a request; None for nothing."""

CHAIN = ("What is given?", "What follows?", "What is left?", "What is the answer?")

_REFUSED: dict[Fault, tuple[int, str, str]] = {
    "rate_limit": (429, "rate_limit_exceeded", "Rate limit reached for requests."),
    "no_credit": (429, "insufficient_quota", "You exceeded your current quota."),
    "unavailable": (503, "overloaded", "The engine is overloaded."),
    "unknown_model": (404, "model_not_found", "The model does not exist."),
    "bad_key": (401, "invalid_api_key", "Incorrect API key provided:"),
    "context_too_long": (400, "context_length_exceeded", "Maximum context length exceeded."),
}
_WORD = b'"delta": {"content"'
_NO_LIMIT = 10**6


@dataclass(slots=True)
class Request:
    """One request as it arrived; `number` counts from 0."""

    number: int
    path: str
    body: dict[str, Any]
    headers: Mapping[str, str] = field(repr=False)
    fault: Fault | None = None

    @property
    def text(self) -> str:
        """The text of all its messages."""
        return "\n".join(str(message["content"]) for message in self.body["messages"])

    @property
    def cap(self) -> int:
        """The completion tokens that it allows."""
        given = self.body.get("max_completion_tokens") or self.body.get("max_tokens")
        return int(given or _NO_LIMIT)

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema that the reply has to follow."""
        wanted = self.body.get("response_format") or {}
        schema: dict[str, Any] | None = wanted.get("json_schema", {}).get("schema")
        return schema

    @property
    def call(self) -> Call:
        """The request as a scripted model takes it."""
        messages = [HumanMessage(str(message["content"])) for message in self.body["messages"]]
        return call_of(messages, None, {"max_tokens": self.cap, "schema": self.schema})

    @property
    def plans(self) -> bool:
        """Whether it is the planner's."""
        return self.call.role != "solve"


def always(fault: Fault) -> Script:
    """Return a script with the same fault for each request."""
    return lambda _: fault


def now_and_then(rate: float, seed: int, faults: tuple[Fault, ...]) -> Script:
    """Return a script with one of the faults for a share of the requests."""
    chance = random.Random(seed)  # noqa: S311 -- repeatable, not secret
    return lambda _: chance.choice(faults) if chance.random() < rate else None


class LoopbackServer:
    """Reads requests, and leaves it to others to answer; a context manager with its own thread.

    Attributes:
        url: The address.
        requests: The requests that have arrived.
    """

    base = "/v1"

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._open: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{self.base}"

    async def _stop(self) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: Any = asyncio.current_task()
        self._open.add(task)
        try:
            while await self._answered(await self._read(reader), writer):
                pass
        except (ConnectionError, EOFError, asyncio.CancelledError):
            pass  # the client is gone, or the test is over
        finally:
            self._open.discard(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Request:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *rest = head.split("\r\n")
        lines = (line.partition(":") for line in rest if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in lines}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        path, parsed = first.split(" ")[1], json.loads(body or b"{}")
        request = Request(len(self.requests), path, parsed, headers)
        self.requests.append(request)
        return request

    async def _answered(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer; return whether the connection can be used again."""
        raise NotImplementedError


class FaultServer(LoopbackServer):
    """The server of OpenAI's protocol.

    Args:
        script: What goes wrong with which request.
        answer: The answer to everything else.
        latency: Seconds before a reply begins.
        stall: Seconds for which the fault ``stall`` says nothing, and ``drip`` no more than spaces.
        key: The key that requests must carry; None takes any.
        changed: Changes a true completion before it is sent.
        obeys_cap: Whether a reply ends at its cap.

    Attributes:
        served: Requests that have arrived.
        billed: Completion tokens that were written, whoever received and reported them.
    """

    def __init__(  # noqa: PLR0913 -- one for each thing a test varies
        self,
        script: Script = lambda _: None,
        *,
        answer: str = "Final answer: 42",
        latency: float = 0.0,
        stall: float = 30.0,
        key: str | None = None,
        changed: Callable[[dict[str, Any]], dict[str, Any]] = lambda reply: reply,
        obeys_cap: bool = True,
    ) -> None:
        super().__init__()
        self.script, self.answer = script, answer
        self.latency, self.stall = latency, stall
        self.key, self.changed, self.obeys_cap = key, changed, obeys_cap
        self.billed = 0

    @property
    def served(self) -> int:
        return len(self.requests)

    async def _answered(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer or fail; return whether the connection can be used again."""
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        known = self.key is None or given == self.key
        fault = request.fault = self.script(request) if known else "bad_key"
        if fault == "reset_before":
            return _reset(writer)
        await asyncio.sleep(self.stall if fault == "stall" else self.latency)
        if fault == "drip":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
            for _ in range(round(self.stall / 0.1)):
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.1)
            return False
        if fault in _REFUSED:
            writer.write(self._refusal(request, *_REFUSED[fault]))
            await writer.drain()
            return True
        return await self._replied(request, writer)

    def _refusal(self, request: Request, status: int, code: str, message: str) -> bytes:
        if code == "invalid_api_key":  # as careless servers do
            message += json.dumps(dict(request.headers))
        error = {"error": {"message": message, "type": code, "code": code, "param": None}}
        wait = {"Retry-After": "0.01"} if request.fault == "rate_limit" else {}
        return response(status, json.dumps(error).encode(), **wait)

    async def _replied(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        cap = request.cap if self.obeys_cap or request.plans else _NO_LIMIT
        reply = _reply(request, self._text(request), cap)
        streams = bool(request.body.get("stream"))
        written = reply.get("usage", {}).get("completion_tokens", 0)
        self.billed += 0 if streams else written
        reply = self.changed(copy.deepcopy(reply))
        parts = _events(request, reply) if streams else [response(200, json.dumps(reply).encode())]
        if request.fault == "half_stream":
            whole = b"".join(parts)
            parts = [whole[: len(whole) // 2]]
        for part in parts:
            writer.write(part)
            await writer.drain()
            self.billed += streams and part.count(_WORD)
        return not streams and request.fault != "half_stream"

    def _text(self, request: Request) -> str:
        return planned(request.call, CHAIN) if request.plans else self.answer


def _reset(writer: asyncio.StreamWriter) -> bool:
    """End the connection with a reset instead of an orderly close."""
    made: Any = writer.get_extra_info("socket")
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False


def response(status: int, body: bytes, **headers: str) -> bytes:
    """Return an HTTP response, of JSON unless the headers say otherwise."""
    named = {"Content-Type": "application/json", "Content-Length": str(len(body))} | headers
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode() + body


def _reply(request: Request, text: str, cap: int) -> dict[str, Any]:
    """Return a completion that keeps to its cap."""
    words = re.findall(r"\s*\S+", text)
    tokens, finish = min(len(words), cap), "length" if len(words) > cap else "stop"
    message: dict[str, Any] = {"role": "assistant", "content": "".join(words[:cap])}
    if request.fault == "empty_at_cap":
        message["content"], finish, tokens = "", "length", request.cap
    prompt = len(request.text.split())
    usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
    reply: dict[str, Any] = {
        "id": f"chatcmpl-{request.number}",
        "object": "chat.completion",
        "created": 0,
        "model": request.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if request.fault == "no_choices":
        usage["completion_tokens"] = min(tokens, 3)
        reply["choices"] = None
    return reply if request.fault == "no_usage" else reply | {"usage": usage}


def _events(request: Request, reply: dict[str, Any]) -> list[bytes]:
    """Return the same completion as server-sent events, a word in each."""
    frame = {name: reply[name] for name in ("id", "created", "model")}
    frame["object"] = "chat.completion.chunk"
    nothing = {"message": {"content": ""}, "finish_reason": "stop"}
    (choice,) = reply["choices"] or [nothing]

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    words = re.findall(r"\s*\S+", (choice["message"] or {}).get("content") or "")
    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk({"content": word}) for word in words]
    chunks.append(chunk({}, choice["finish_reason"]))
    if "usage" in reply and (request.body.get("stream_options") or {}).get("include_usage"):
        chunks.append(frame | {"choices": [], "usage": reply["usage"]})
    lines = [f"data: {json.dumps(part)}\n\n".encode() for part in chunks]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
    lines.append(b"data: [DONE]\n\n")
    framed = [f"{len(line):x}\r\n".encode() + line + b"\r\n" for line in lines]
    return [head + b"Transfer-Encoding: chunked\r\n\r\n", *framed, b"0\r\n\r\n"]
