"""What went wrong, in the shape and with the status that OpenAI's clients know."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.responses import Response

from pb_graph.errors import InputError, NoAnswerError, PlanAndBudgetError
from pb_graph.serve.names import UnknownNameError
from pb_graph.serve.requests import RequestError

_log = logging.getLogger(__name__)
_SERVERS_FAULT = 500


def json_response(
    document: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON response; what a model wrote may hold what UTF-8 cannot, so it is all ASCII."""
    return Response(json.dumps(document), status, headers, media_type="application/json")


class Refusal(NamedTuple):
    """An error in OpenAI's shape."""

    status: int
    body: dict[str, Any]

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        """The response that says so.

        A failed query was tried again by us, as often as it made sense, and may have been paid for:
        OpenAI's clients are told not to repeat it.
        """
        once = {"x-should-retry": "false"} if self.status >= _SERVERS_FAULT else {}
        return json_response(self.body, self.status, {**(headers or {}), **once})


def refusal(
    status: int, message: str, kind: str, code: str | None = None, param: str | None = None
) -> Refusal:
    """An error of this status, type and code; ``param`` is the field that is to blame."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return Refusal(status, {"error": error})


def refusal_of(error: Exception, *, report: bool = False) -> Refusal:
    """What a client is told of an exception; of one that is a fault of ours, only that it is.

    Args:
        error: What was raised.
        report: Whether the account of a query without an answer goes with it.
    """
    if isinstance(error, UnknownNameError):
        return refusal(404, str(error), "invalid_request_error", "model_not_found", "model")
    if isinstance(error, InputError):
        param = error.param if isinstance(error, RequestError) else None
        return refusal(400, str(error), "invalid_request_error", param=param)
    if isinstance(error, NoAnswerError):
        status, body = refusal(502, str(error), "server_error", "no_answer")
        return Refusal(status, body | ({"report": error.report} if report else {}))
    if isinstance(error, PlanAndBudgetError):
        return refusal(502, str(error), "server_error", "model_unavailable")
    _log.error("a request failed", exc_info=error)
    return refusal(500, "something went wrong here; the log says what", "server_error")
