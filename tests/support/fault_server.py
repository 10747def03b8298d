"""An OpenAI-compatible server on loopback that plans, answers, and misbehaves on command.

It speaks chat completions, plain and as server-sent events, with structured output and usage. What
goes wrong is scripted per request, so that a test is the same each time. A token is a word here.
In a test it runs in a thread; as a script it is a process of its own, which says its address on the
first line (`serving` starts one).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import copy
import itertools
import json
import random
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from pb_graph.planner.requests import LEVEL_FORM

Fault = Literal[
    "rate_limit",
    "rate_limit_with_wait",
    "no_credit",
    "server_error",
    "unavailable",
    "reset_before",
    "reset_midway",
    "stall",
    "invalid_json",
    "no_json",
    "no_choices",
    "half_stream",
    "empty_at_cap",
    "no_usage",
    "refusal",
    "content_filter",
    "unknown_model",
    "bad_key",
    "forbidden",
    "context_too_long",
]
"""What can go wrong with one request."""

Script = Callable[["Request"], Fault | None]
"""Decides what goes wrong with a request; None for nothing."""

TRANSIENT: tuple[Fault, ...] = (
    "rate_limit",
    "rate_limit_with_wait",
    "server_error",
    "unavailable",
    "reset_before",
    "reset_midway",
    "stall",
    "invalid_json",
    "no_json",
    "no_choices",
    "half_stream",
)
"""Faults after which the same request may well succeed."""

CHAIN = ("What is given?", "What follows?", "What is left?", "What is the answer?")
WAIT = 0.2
"""Seconds that ``rate_limit_with_wait`` asks for."""

_REFUSED: dict[Fault, tuple[int, str, str]] = {
    "rate_limit": (429, "rate_limit_exceeded", "Rate limit reached for requests."),
    "rate_limit_with_wait": (429, "rate_limit_exceeded", "Rate limit reached; wait."),
    "no_credit": (429, "insufficient_quota", "You exceeded your current quota."),
    "server_error": (500, "server_error", "The server had an error."),
    "unavailable": (503, "overloaded", "The engine is overloaded."),
    "unknown_model": (404, "model_not_found", "The model does not exist."),
    "forbidden": (403, "forbidden", "You have no access to this model."),
    "context_too_long": (400, "context_length_exceeded", "Maximum context length exceeded."),
}
_LOST_USAGE_TOKENS = 3
_WORD = b'"delta": {"content"'


@dataclass(slots=True)
class Request:
    """One request as it arrived."""

    number: int
    """Counts from 0, in order of arrival."""
    body: dict[str, Any]
    headers: Mapping[str, str] = field(repr=False)
    fault: Fault | None = None

    @property
    def text(self) -> str:
        """All that was said in it."""
        return "\n".join(str(message["content"]) for message in self.body["messages"])

    @property
    def cap(self) -> int:
        """Completion tokens it allows."""
        given = self.body.get("max_completion_tokens") or self.body.get("max_tokens")
        return int(given or 10**6)

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema that the reply has to follow."""
        wanted = self.body.get("response_format") or {}
        schema: dict[str, Any] | None = wanted.get("json_schema", {}).get("schema")
        return schema

    @property
    def plans(self) -> bool:
        """Whether it is the planner's."""
        return self.schema is not None or self.judges

    @property
    def judges(self) -> bool:
        """Whether it asks for the level alone, in one token."""
        return LEVEL_FORM in str(self.body["messages"][0]["content"])


def in_turn(*faults: Fault | None) -> Script:
    """Let these go wrong, one with each request, and then nothing more."""
    script = itertools.chain(faults, itertools.repeat(None))
    return lambda _: next(script)


def always(fault: Fault) -> Script:
    """Let the same go wrong each time."""
    return lambda _: fault


def now_and_then(rate: float, seed: int, faults: tuple[Fault, ...] = get_args(Fault)) -> Script:
    """Let one of ``faults`` go wrong with a share of ``rate`` of the requests."""
    chance = random.Random(seed)  # noqa: S311 -- repeatable, not secret
    return lambda _: chance.choice(faults) if chance.random() < rate else None


class FaultServer:
    """The server; a context manager that serves from a thread of its own.

    Args:
        script: What goes wrong with which request.
        plan: Sub-questions that the planner's schema is filled with.
        answer: What everything else is answered with.
        latency: Seconds before a reply begins.
        stall: Seconds for which the fault ``stall`` says nothing.
        pause: Seconds for which a stream says nothing half-way.
        key: The key that requests must carry; None takes any.
        wait: Value of ``Retry-After`` in ``rate_limit_with_wait``.
        remembers: Whether requests are kept; in a long run they would only fill the memory.
        changed: What it makes of a true completion before it is sent: where it lies.
        obeys_cap: Whether a reply ends at its cap.

    Attributes:
        billed: Completion tokens that were written, whoever received and reported them.
    """

    def __init__(  # noqa: PLR0913 -- a knob for each thing a test varies
        self,
        script: Script = lambda _: None,
        *,
        plan: tuple[str, ...] = CHAIN,
        answer: str = "Final answer: 42",
        latency: float = 0.0,
        stall: float = 30.0,
        pause: float = 0.0,
        key: str | None = None,
        wait: str = str(WAIT),
        remembers: bool = True,
        changed: Callable[[dict[str, Any]], dict[str, Any]] = lambda reply: reply,
        obeys_cap: bool = True,
    ) -> None:
        self.script, self.plan, self.answer = script, plan, answer
        self.latency, self.stall, self.key, self.wait = latency, stall, key, wait
        self.pause = pause
        self.requests: list[Request] = []
        self.served = self.billed = 0
        self.changed, self.obeys_cap = changed, obeys_cap
        self._remembers = remembers
        self._open: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        """Base of the API."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def open(self) -> int:
        """Connections that it still answers on."""
        return len(self._open)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.start(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def start(self) -> asyncio.Server:
        """Listen on a free port of loopback."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self._server

    async def _stop(self) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: Any = asyncio.current_task()
        self._open.add(task)
        try:
            while request := await self._read(reader):
                if not await self._answered(request, writer):
                    break
        except (ConnectionError, EOFError, asyncio.CancelledError):
            pass  # the client is gone, or the test is over
        finally:
            self._open.discard(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Request | None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:
            return None
        lines = head.split("\r\n")[1:]
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Request(self.served, json.loads(body or b"{}"), headers)
        self.served += 1
        if self._remembers:
            self.requests.append(request)
        return request

    async def _answered(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer, or misbehave; whether the connection can be used again."""
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        known = self.key is None or given == self.key
        fault = request.fault = self.script(request) if known else "bad_key"
        if fault == "reset_before":
            return _reset(writer)
        await asyncio.sleep(self.stall if fault == "stall" else self.latency)
        if fault == "bad_key":
            said = f"Incorrect API key provided: {given}. {json.dumps(dict(request.headers))}"
            writer.write(_refusal(401, "invalid_api_key", said))
        elif fault in _REFUSED:
            wait = {"Retry-After": self.wait} if fault == "rate_limit_with_wait" else {}
            writer.write(_refusal(*_REFUSED[fault], **wait))
        elif fault == "no_json":
            writer.write(_response(200, b"<html>busy</html>", "text/html"))
        else:
            return await self._replied(request, writer)
        await writer.drain()
        return True

    async def _replied(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        cap = request.cap if self.obeys_cap or request.plans else 10**6
        reply = _reply(request, self._text(request), cap)
        streams = request.body.get("stream")
        written = reply.get("usage", {}).get("completion_tokens", 0)
        self.billed += 0 if streams else written
        reply = self.changed(copy.deepcopy(reply))
        if streams:
            parts = _events(request, reply)
        else:
            body = json.dumps(reply).encode()
            if request.fault == "invalid_json":
                body = body[:-20]
            parts = [_response(200, body, "application/json")]
        if request.fault in ("reset_midway", "half_stream"):
            whole = b"".join(parts)
            writer.write(whole[: len(whole) // 2])
            await writer.drain()
            return _reset(writer) if request.fault == "reset_midway" else False
        for number, part in enumerate(parts):
            if streams and number == len(parts) // 2:
                await asyncio.sleep(self.pause)
            writer.write(part)
            await writer.drain()
            self.billed += bool(streams) and _WORD in part
        return not request.body.get("stream")

    def _text(self, request: Request) -> str:
        if request.judges:
            return "3"
        return self.answer if request.schema is None else json.dumps(self._filled(request.schema))

    def _filled(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Something that follows one of the planner's schemas."""
        found: dict[str, Any] = {}
        for name, part in schema["properties"].items():
            count = int(part.get("minItems", 0))
            if name == "steps":
                found[name] = self._steps(part["items"]["type"] == "object")
            elif name == "credits":
                found[name] = [100 // count] * count
            else:
                found[name] = [3] * count if part["type"] == "array" else 3
        return found

    def _steps(self, graded: bool) -> list[Any]:
        if not graded:
            return list(self.plan)
        worth = 100 // len(self.plan)
        return [{"question": text, "level": 3, "credit": worth} for text in self.plan]


def _reset(writer: asyncio.StreamWriter) -> bool:
    """End the connection with a reset instead of an orderly close."""
    made: Any = writer.get_extra_info("socket")
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False


def _response(status: int, body: bytes, kind: str, **headers: str) -> bytes:
    named = {"Content-Type": kind, "Content-Length": str(len(body))} | headers
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode() + body


def _refusal(status: int, code: str, message: str, **headers: str) -> bytes:
    error = {"error": {"message": message, "type": code, "code": code, "param": None}}
    return _response(status, json.dumps(error).encode(), "application/json", **headers)


def _reply(request: Request, text: str, cap: int) -> dict[str, Any]:
    """A completion that keeps to its cap."""
    words = re.findall(r"\s*\S+", text)
    written, fault = words[:cap], request.fault
    finish = "length" if len(words) > cap else "stop"
    message: dict[str, Any] = {"role": "assistant", "content": "".join(written)}
    tokens = len(written)
    if fault == "empty_at_cap":
        message["content"], finish, tokens = "", "length", request.cap
    elif fault == "refusal":
        message |= {"content": None, "refusal": "I cannot help with that."}
    elif fault == "content_filter":
        message["content"], finish = "", "content_filter"
    prompt = len(request.text.split())
    usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    reply: dict[str, Any] = {
        "id": f"chatcmpl-{request.number}",
        "object": "chat.completion",
        "created": 0,
        "model": request.body["model"],
        "choices": [choice],
    }
    if fault == "no_choices":
        usage["completion_tokens"] = min(tokens, _LOST_USAGE_TOKENS)
        reply["choices"] = None
    return reply if fault == "no_usage" else reply | {"usage": usage}


def _events(request: Request, reply: dict[str, Any]) -> list[bytes]:
    """The same completion as server-sent events, a word in each."""
    frame = {name: reply[name] for name in ("id", "created", "model")}
    frame["object"] = "chat.completion.chunk"
    nothing = {"message": {"content": ""}, "finish_reason": "stop"}
    (choice,) = reply["choices"] or [nothing]
    usage = reply.get("usage")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    words = re.findall(r"\s*\S+", (choice["message"] or {}).get("content") or "")
    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk({"content": word}) for word in words]
    chunks.append(chunk({}, choice["finish_reason"]))
    if usage is not None and (request.body.get("stream_options") or {}).get("include_usage"):
        chunks.append(frame | {"choices": [], "usage": usage})
    lines = [f"data: {json.dumps(part)}\n\n".encode() for part in chunks]
    if request.fault == "invalid_json":
        lines[1] = b'data: {"choices": [\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
    lines.append(b"data: [DONE]\n\n")
    framed = [f"{len(line):x}\r\n".encode() + line + b"\r\n" for line in lines]
    return [head + b"Transfer-Encoding: chunked\r\n\r\n", *framed, b"0\r\n\r\n"]


@contextlib.contextmanager
def serving(*options: str) -> Iterator[str]:
    """Run the server as a process of its own, for as long as the context lasts.

    Args:
        *options: Of the script below.

    Yields:
        Base of the API.
    """
    command = [sys.executable, __file__, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def _serve(server: FaultServer) -> None:
    listening = await server.start()
    print(server.url, flush=True)  # noqa: T201 -- how the parent process learns the address
    async with listening:
        await listening.serve_forever()


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before a reply")
    parser.add_argument("--stall", type=float, default=30.0, help="seconds of silence")
    parser.add_argument("--rate", type=float, default=0.0, help="share of requests that fail")
    given = parser.parse_args()
    server = FaultServer(
        now_and_then(given.rate, seed=0),
        latency=given.latency,
        stall=given.stall,
        remembers=False,
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(server))


if __name__ == "__main__":
    main()
