"""Sends an answer, whole or as server-sent events, for as long as there is someone to read it."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pb_graph.serve.answers import Done
from pb_graph.serve.errors import json_response, refusal_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping

    from starlette.types import Receive, Scope, Send

    from pb_graph.serve.answers import Piece
    from pb_graph.serve.chat import ChatRequest
    from pb_graph.serve.responses import ResponsesRequest

_ALIVE = b": \n\n"  # a comment, which clients skip


class Answering:
    """The response to one query, an ASGI application. A client that leaves cancels the query.

    The head of a stream is sent with the first piece, or when the first model call is through: what
    goes wrong before has a status of its own, what goes wrong later is an event of the stream.

    Args:
        asked: The request.
        parts: The answer on its way; it begins when this is sent.
    """

    def __init__(
        self, asked: ChatRequest | ResponsesRequest, parts: AsyncGenerator[Piece | Done]
    ) -> None:
        self._asked, self._parts = asked, parts
        self._wording = asked.wording
        ignored = ", ".join(asked.ignored).encode("ascii", "replace").decode()[:1000]
        self._headers = {"x-pb-ignored": ignored} if ignored.isprintable() and ignored else {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or stop because nobody is there any more."""
        work = asyncio.ensure_future(self._answer(scope, receive, send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False
        try:
            async with aclosing(self._parts) as parts:
                async for part in parts:
                    if self._asked.stream:
                        head = b"" if begun else await self._begin(send)
                        begun = True
                        await _send(send, head + self._said(part))
                    elif isinstance(part, Done):
                        whole = self._wording.whole(part)
                        await json_response(whole, headers=self._headers)(scope, receive, send)
        except Exception as error:  # noqa: BLE001 -- told to the client
            refused = refusal_of(error, report=self._asked.report)
            if begun:
                failed = _events(self._wording.failed(refused.body))
                await _send(send, failed + self._wording.closing)
            else:
                await refused.response(self._headers)(scope, receive, send)
        if begun:
            await _send(send, b"", more=False)

    async def _begin(self, send: Send) -> bytes:
        named = {"content-type": "text/event-stream", "cache-control": "no-cache", **self._headers}
        headers = [(name.encode(), value.encode()) for name, value in named.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        return _events(self._wording.begin())

    def _said(self, part: Piece | Done) -> bytes:
        if isinstance(part, Done):
            return _events(self._wording.end(part)) + self._wording.closing
        return _events(self._wording.piece(part.text)) if part.text else _ALIVE


def _events(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Server-sent events, with their types in front where they have one."""
    named = ((f"event: {one['type']}\n" if "type" in one else "", one) for one in documents)
    return "".join(f"{name}data: {json.dumps(one)}\n\n" for name, one in named).encode()


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _gone(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
