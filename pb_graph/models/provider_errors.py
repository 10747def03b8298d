"""A provider's exception as one of ours: what happened, what to do, and no secret in it.

Exceptions are known by their status, or by the names of their classes: LangChain's own, those of
the providers' SDKs and of the HTTP clients below, none of which need be installed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from pb_graph.errors import ModelCallError

if TYPE_CHECKING:
    from pb_graph.types import Charge

_SECRETS = re.compile(
    r"(bearer\s+"
    r"|api[-_ ]?key['\"]?\s*[:=]\s*['\"]?"
    r"|api[-_ ]?key\s+(?=[\w.*-]*\d)"  # 'API key variable' is no secret
    r"|[?&]key="
    r"|\bsk[-_]"
    r"|\b(?:key|gsk|hf|xai)[-_](?=[\w.*-]*\d)"
    r"|\bAIza)"
    r"[\w.*+/=~-]{6,}",
    re.IGNORECASE,
)
_MAX_DETAIL = 300
_MAX_READ = 10_000
_ERRORS = range(400, 600)

# What a body tells of an error, half-way in a stream too, as the refusal that it would have been.
_STATUS_OF = {str(status): status for status in _ERRORS} | {
    "server_error": 500,
    "api_error": 500,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TRANSIENT = frozenset(
    {
        "TimeoutError",
        "ConnectionError",
        "ModelTimeoutError",  # LangChain's
        "ModelConnectionError",
        "ModelAPIError",
        "APIConnectionError",  # the SDKs'
        "APIResponseValidationError",
        "TransportError",  # httpx
        "ClientConnectionError",  # aiohttp
        "ClientPayloadError",
        "JSONDecodeError",
    }
)
# LangChain's words for a body that is no completion, for which it has no exception of its own.
_BROKEN_BODY = re.compile(
    r"Unexpected response type|null value for 'choices'|missing 'choices'|No generation"
    r"|list index out of range"
)
_TOO_LONG = re.compile(r"context[ _](length|window|size)", re.IGNORECASE)
# What LangChain raises where a completion lacks what it reads.
_UNREADABLE = ("AttributeError", "TypeError", "ValidationError")
_NO_SERVER = frozenset({"ConnectError", "ConnectTimeout", "ConnectionRefusedError", "gaierror"})
# What the client refuses to send at all, however often it is asked.
_UNSENDABLE = {
    "UnsupportedProtocol": "Write the base URL with http:// or https:// in front.",
    "LocalProtocolError": "Look for a line break in the API key, or in another header.",
    "UnicodeEncodeError": "Look for a character in the API key, or in the text, that is none.",
}
_NEVER_SENT = _NO_SERVER | _UNSENDABLE.keys() | {"PoolTimeout"}
# Of these SDKs say no more than 'Connection error.'.
_UNTOLD = _NEVER_SENT | {"NetworkError", "ProtocolError"}
_GONE = frozenset({401, 403, 404})
_CALLBACKS = "langchain_core.callbacks.manager"
_NO_CREDIT, _PAYMENT = "insufficient_quota", 402

_REMEDIES = {
    400: "The request was refused; a prompt longer than the model's context is a common cause.",
    401: "The server refused the API key: check the provider's key variable.",
    403: "This key may not use this model: check its permissions.",
    404: "The server does not know this model or path: check the model's name and the base URL.",
    408: "The server gave up waiting: try again, or raise Settings.timeout.",
    413: "The request is too large: shorten the question or its reference.",
    429: "The server's rate limit is reached: wait, or lower the concurrency.",
}


def to_model_call_error(
    error: Exception,
    *,
    secrets: Sequence[str] = (),
    lost: tuple[Charge, ...] = (),
    attempts: int = 1,
    model: str = "",
) -> ModelCallError:
    """Make one of our exceptions of any exception of a model call."""
    if isinstance(error, ModelCallError):
        return error
    status = status_of(error)
    kind = type(error).__name__ + (f" (HTTP {status})" if status else "")
    said, cause = _said(error), _of_kind(error, *_UNTOLD)
    if cause is not error and str(cause or ""):
        said += f" ({cause})"
    detail = " ".join(redact(said, secrets).split())[:_MAX_DETAIL]
    times = f", {attempts} times," if attempts > 1 else ""
    to = f" to {redact(model, secrets)}" if model else ""
    msg = f"The model call{to} failed{times} with {kind}: {detail} {_remedy(error, status)}"
    return ModelCallError(msg, status=status, lost=lost, fatal=_is_fatal(error, status))


def status_of(error: Exception) -> int | None:
    """The HTTP status of a refusal behind an exception, if it carries one."""
    found = getattr(error, "status_code", None)
    if found is None:
        found = getattr(getattr(error, "response", None), "status_code", None)
    if found not in _ERRORS:  # what goes wrong later stands in the body of a response that says 200
        bodies = (getattr(error, "body", None), error.args[0] if error.args else None)
        body: Any = next((one for one in bodies if isinstance(one, Mapping)), {})
        said = body.get("error")
        body = said if isinstance(said, Mapping) else body
        told = (_STATUS_OF.get(str(body.get(name))) for name in ("code", "type"))
        found = next(filter(None, told), None)
    return found if isinstance(found, int) and found in _ERRORS else None


def is_transient(error: Exception) -> bool:
    """Whether the same request may well succeed a little later.

    True for rate limits and servers in trouble, connections that could not be made or broke,
    time-outs, and bodies that are no completion. Used-up credit comes as a rate limit, but stays.
    """
    status = status_of(error)
    if status is not None:
        return status in _TRANSIENT_STATUS and not _out_of_credit(error)
    if _unsendable(error):
        return False
    return bool(_names(error) & _TRANSIENT or _BROKEN_BODY.search(_said(error)))


def is_too_long(error: Exception) -> bool:
    """Whether a request was refused because it does not fit into the model's context."""
    return "ContextOverflowError" in _names(error) or bool(_TOO_LONG.search(_said(error)))


def may_be_paid(error: Exception) -> bool:
    """Whether the provider may charge for a failed attempt.

    A refusal is not charged for, nor a request that was never sent. When the connection or the
    caller's patience ended later, the model may have written all that it was asked for.
    """
    if status_of(error) is not None:
        return False
    unreadable = _of_kind(error, *_UNREADABLE) is not None
    return (unreadable or is_transient(error)) and _of_kind(error, *_NEVER_SENT) is None


def is_from_callback(error: Exception) -> bool:
    """Whether a host's callback raised it (``raise_error=True``), and no model's client."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == _CALLBACKS:
            return True
        trace = trace.tb_next
    return False


def retry_after(error: Exception) -> float:
    """Seconds that the server asked to wait (``Retry-After``, as seconds or as a date); else 0."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    given = headers.get("retry-after") if isinstance(headers, Mapping) else None
    if not given:
        return 0.0
    try:
        seconds = float(given)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(given).timestamp() - time.time()
        except ValueError:
            return 0.0
    return max(0.0, seconds) if seconds == seconds else 0.0  # noqa: PLR0124 -- not 'nan'


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """Blank out ``secrets``, and what looks like a key."""
    for secret in secrets:
        text = text.replace(secret, "[hidden]")
    return _SECRETS.sub(r"\1[hidden]", text)


def shown_safely(error: Exception, secrets: Sequence[str]) -> Exception | None:
    """The exception as the cause of ours, unless a traceback would show a secret in it."""
    texts = [f"{cause} {cause!r}" for cause in _chain(error)]
    shows = any(secret in text for text in texts for secret in secrets)
    return None if shows or any(_SECRETS.search(text[:_MAX_READ]) for text in texts) else error


def _remedy(error: Exception, status: int | None) -> str:
    if _out_of_credit(error):
        return "The account has no credit left: top it up, or use another key."
    if status is not None:
        default = "The server is in trouble: try again later."
        return _REMEDIES.get(status, default if status >= 500 else _REMEDIES[400])  # noqa: PLR2004
    if unsendable := _unsendable(error):
        return unsendable
    if "timeout" in type(error).__name__.lower():
        return "Raise Settings.timeout, or lower the budget."
    no_completion = _names(error) & {*_UNREADABLE, "JSONDecodeError", "APIResponseValidationError"}
    if no_completion or _BROKEN_BODY.search(_said(error)):
        return "The reply is no chat completion: check the base URL, and the proxies on the way."
    return "Check that the model's server is running and reachable."


def _is_fatal(error: Exception, status: int | None) -> bool:
    """Whether another request would fare no better: no server, no such model, no access to it."""
    if status is not None:
        return status in _GONE or _out_of_credit(error)
    return bool(_unsendable(error)) or _of_kind(error, *_NO_SERVER) is not None


def _unsendable(error: Exception) -> str:
    """What to do about a request that could never be sent; empty for any other."""
    return next((told for kind, told in _UNSENDABLE.items() if _of_kind(error, kind)), "")


def _said(error: Exception) -> str:
    """What it says; of a refusal the whole, of which OpenAI's SDK repeats a part from 3.0 on."""
    return str(getattr(error, "body", None) or error)[:_MAX_READ]


def _of_kind(error: BaseException, *names: str) -> BaseException | None:
    """The first in the chain of an error that has one of these names."""
    return next((cause for cause in _chain(error) if _names(cause).intersection(names)), None)


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and what it came from, down to the HTTP client's."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _out_of_credit(error: Exception) -> bool:
    return _NO_CREDIT in _said(error) or status_of(error) == _PAYMENT
