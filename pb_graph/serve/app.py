"""The endpoint: ``/v1/chat/completions``, ``/v1/responses``, ``/v1/models``, ``/health``."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from pb_graph.budget.account import Budget
from pb_graph.errors import PlanAndBudgetError
from pb_graph.serve.answers import answer
from pb_graph.serve.chat import ChatRequest
from pb_graph.serve.errors import json_response, refusal, refusal_of
from pb_graph.serve.names import ModelNames, settings_of
from pb_graph.serve.responses import ResponsesRequest
from pb_graph.serve.streams import Answering
from pb_graph.settings import Context

if TYPE_CHECKING:
    from starlette.requests import Request

    from pb_graph.serve.answers import Graph

    Asked = ChatRequest | ResponsesRequest

MAX_BODY = 8 * 2**20
"""Bytes of a request."""

_KINDS = {401: ("authentication_error", "invalid_api_key"), 403: ("permission_error", None)}


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine itself."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What all requests share.

    Attributes:
        graph: Answers.
        names: What a request can name as its model.
        api_key: What it has to bring; None for nothing, and then it has to come from this machine.
        most: Completion tokens that a query can cost at most; None for no limit but its own.
    """

    graph: Graph
    names: ModelNames
    api_key: str | None = None
    most: int | None = None

    def app(self) -> Starlette:
        """The ASGI application."""
        routes = [
            Route("/health", _health),
            Route("/v1/models", self.models),
            Route("/v1/models/{model:path}", self.model),
            Route("/v1/chat/completions", partial(self.answer, ChatRequest), methods=["POST"]),
            Route("/v1/responses", partial(self.answer, ResponsesRequest), methods=["POST"]),
        ]
        ours = (PlanAndBudgetError, Exception)  # of which Starlette looks for the nearest
        handlers: Any = {HTTPException: _http_error, **dict.fromkeys(ours, _error)}
        return Starlette(routes=routes, exception_handlers=handlers)

    async def models(self, request: Request) -> Response:
        """All that can be named as a model."""
        self._admit(request)
        return json_response({"object": "list", "data": [_model(name) for name in self.names]})

    async def model(self, request: Request) -> Response:
        """One of them, also with settings behind its name."""
        self._admit(request)
        name = request.path_params["model"]
        settings_of(name, self.names)
        return json_response(_model(name))

    async def answer(self, kind: type[Asked], request: Request) -> Answering:
        """Answer a query, in the protocol of this kind of requests."""
        self._admit(request)
        asked = kind.read(await _body(request), request.headers)
        context = self._context(asked)
        return Answering(asked, answer(self.graph, asked.given, context, stream=asked.stream))

    def _context(self, asked: Asked) -> Context:
        """What the request's model stands for, within the smaller of its total and ours."""
        totals = [total for total in (asked.total, self.most) if total is not None]
        budget = Budget(min(totals)) if totals else None
        return Context(settings=settings_of(asked.model, self.names), shared_budget=budget)

    def _admit(self, request: Request) -> None:
        """Let in a request that brings the key, or without one is from this machine.

        A page in a browser on this machine reaches us, too, but names its own host or origin.

        Raises:
            HTTPException: It is not let in.
        """
        if self.api_key is not None:
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), self.api_key.encode()):
                raise HTTPException(401, "the API key is missing or wrong")
            return
        hosts = (request.url.hostname, _host_of(request.headers.get("origin")))
        if not all(host and is_loopback(host) for host in hosts):
            raise HTTPException(403, "without an API key only this machine is served")


def _host_of(origin: str | None) -> str | None:
    """The host of the page that a request comes from; this machine where none is named."""
    try:
        return urlsplit(origin).hostname if origin else "localhost"
    except ValueError:  # half an address in brackets
        return None


async def _health(_: Request) -> Response:
    return json_response({"status": "ok"})


async def _http_error(_: Request, error: HTTPException) -> Response:
    kind, code = _KINDS.get(error.status_code, ("invalid_request_error", None))
    return refusal(error.status_code, error.detail, kind, code).response(error.headers)


async def _error(_: Request, error: Exception) -> Response:
    return refusal_of(error).response()


async def _body(request: Request) -> bytes:
    """The body; of one that is too long, no more is read."""
    read = bytearray()
    async for part in request.stream():
        read += part
        if len(read) > MAX_BODY:
            raise HTTPException(413, f"a request has at most {MAX_BODY} bytes")
    return bytes(read)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "plan-and-budget"}
