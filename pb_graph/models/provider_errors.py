"""A provider's exception as one of ours: what happened, what to do, and no secret in it.

LangChain's own exceptions say whether a call is worth another attempt. Those of the SDKs and of the
HTTP clients below, none of which need be installed, are known by their status and their names.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from langchain_core.exceptions import ContextOverflowError, ModelError
from pydantic import SecretStr

from pb_graph.errors import ModelCallError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.types import Charge

_SECRETS = re.compile(
    r"(bearer\s+|api[-_ ]?key['\"]?\s*[:=]\s*['\"]?|api[-_ ]?key\s+(?=[\w.*-]*\d)|[?&]key="
    r"|\bsk[-_]|\b(?:key|gsk|hf|xai)[-_](?=[\w.*-]*\d)|\bAIza)[\w.*+/=~-]{6,}",
    re.IGNORECASE,
)
_MIN_SECRET = 4  # a local server's 'x' is none, and would blank out half of the message
_MAX_DETAIL, _MAX_READ = 300, 10_000
_ERRORS = range(400, 600)
# Names that stand in the body of an error in place of a status, also half-way in a stream.
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
        *("TimeoutError", "ConnectionError", "JSONDecodeError"),
        *("APIConnectionError", "APIResponseValidationError"),  # the SDKs'
        *("TransportError", "ClientConnectionError", "ClientPayloadError"),  # httpx, aiohttp
    }
)
# LangChain's words for a body that is no completion, for which it has no exception of its own.
_BROKEN_BODY = re.compile(
    r"Unexpected response type|null value for 'choices'|missing 'choices'|No generation"
    r"|list index out of range"
)
# What LangChain raises where a completion lacks what it reads.
_UNREADABLE = frozenset({"AttributeError", "KeyError", "TypeError", "ValidationError"})
_NO_SERVER = frozenset({"ConnectError", "ConnectTimeout", "ConnectionRefusedError", "gaierror"})
# What the client refuses to send at all, however often it is asked.
_UNSENDABLE = {
    "UnsupportedProtocol": "Write the base URL with http:// or https:// in front.",
    "LocalProtocolError": "Look for a line break in the API key, or in another header.",
    "UnicodeEncodeError": "Look for a character in the API key, or in the text, that is none.",
}
_NEVER_SENT = _NO_SERVER | _UNSENDABLE.keys() | {"PoolTimeout"}
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
    """Return an exception of a model call as one of ours.

    Args:
        error: Any exception of a model call; one of ours is returned as it is.
        secrets: Texts to blank out, as `secrets_of` returns them.
        lost: Charges of the attempts that failed.
        attempts: Number of attempts that failed.
        model: Name of the model.
    """
    if isinstance(error, ModelCallError):
        return error
    status = status_of(error)
    kind = type(error).__name__ + (f" (HTTP {status})" if status else "")
    said = _message(error)
    cause = _first_of(error, _NEVER_SENT | {"NetworkError", "ProtocolError"})
    if cause is not error and str(cause or ""):  # SDKs say no more than 'Connection error.'
        said += f" ({cause})"
    detail = " ".join(redact(said, secrets).split())[:_MAX_DETAIL]
    times = f", {attempts} times," if attempts > 1 else ""
    to = f" to {redact(model, secrets)}" if model else ""
    msg = f"The model call{to} failed{times} with {kind}: {detail} {_remedy(error, status)}"
    if status is not None:
        is_fatal = status in {401, 403, 404} or _is_out_of_credit(error)
    else:
        is_fatal = _first_of(error, _NO_SERVER | _UNSENDABLE.keys()) is not None
    return ModelCallError(msg, status=status, lost=lost, fatal=is_fatal)


def status_of(error: Exception) -> int | None:
    """Return the HTTP status of a refusal behind an exception, if it carries one."""
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
    """Return whether the same request may well succeed a little later.

    Rate limits, servers in trouble, broken connections, time-outs and bodies that are no completion
    are transient. Used-up credit comes as a rate limit, but stays.
    """
    if _is_out_of_credit(error) or _first_of(error, _UNSENDABLE.keys()):
        return False
    if isinstance(error, ModelError):
        return error.is_retryable
    status = status_of(error)
    if status is not None:
        return status in _TRANSIENT_STATUS
    return bool(_names(error) & _TRANSIENT or _BROKEN_BODY.search(_message(error)))


def is_too_long(error: Exception) -> bool:
    """Return whether a request was refused because it does not fit into the model's context."""
    told = re.search(r"context[ _](length|window|size)", _message(error), re.IGNORECASE)
    return isinstance(error, ContextOverflowError) or bool(told)


def may_be_billed(error: Exception) -> bool:
    """Return whether the provider may charge for a failed attempt.

    A refusal is not charged for, nor a request that was never sent. When the connection or the
    caller's patience ended later, the model may have written all that it was asked for.
    """
    if status_of(error) is not None or _first_of(error, _NEVER_SENT):
        return False
    return is_transient(error) or _first_of(error, _UNREADABLE) is not None


def retry_after(error: Exception) -> float:
    """Return the seconds that the server asked to wait (``Retry-After``); else 0."""
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


def secrets_of(model: BaseChatModel) -> tuple[str, ...]:
    """Return the keys of a chat model, and its headers, which may be keys; the longest first."""
    given = [own.get_secret_value() for own in vars(model).values() if isinstance(own, SecretStr)]
    headers: Mapping[str, Any] = getattr(model, "default_headers", None) or {}
    for header in map(str, headers.values()):
        given += [header, header.partition(" ")[2]]  # behind its scheme: 'Bearer KEY'
    return tuple(sorted({one for one in given if len(one) >= _MIN_SECRET}, key=len, reverse=True))


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """Blank out ``secrets``, and what looks like a key."""
    for secret in secrets:
        text = text.replace(secret, "[hidden]")
    return _SECRETS.sub(r"\1[hidden]", text)


def safe_cause(error: Exception, secrets: Sequence[str]) -> Exception | None:
    """Return an exception as the cause of ours; None if a traceback would show a secret in it."""
    text = " ".join(f"{cause!s} {cause!r}"[:_MAX_READ] for cause in _chain(error))
    return error if redact(text, secrets) == text else None


def _remedy(error: Exception, status: int | None) -> str:
    if _is_out_of_credit(error):
        return "The account has no credit left: top it up, or use another key."
    if status is not None:
        default = "The server is in trouble: try again later."
        return _REMEDIES.get(status, default if status >= 500 else _REMEDIES[400])  # noqa: PLR2004
    if unsendable := _first_of(error, _UNSENDABLE.keys()):
        return next(_UNSENDABLE[name] for name in _UNSENDABLE if name in _names(unsendable))
    if "timeout" in type(error).__name__.lower():
        return "Raise Settings.timeout, or lower the budget."
    no_completion = _names(error) & (
        _UNREADABLE | {"JSONDecodeError", "APIResponseValidationError"}
    )
    if no_completion or _BROKEN_BODY.search(_message(error)):
        return "The reply is no chat completion: check the base URL, and the proxies on the way."
    return "Check that the model's server is running and reachable."


def _message(error: Exception) -> str:
    """Return the whole of a refusal, of which OpenAI's SDK repeats a part from 3.0 on."""
    return str(getattr(error, "body", None) or error)[:_MAX_READ]


def _first_of(error: BaseException, names: Iterable[str]) -> BaseException | None:
    """Return the first in the chain of an error whose class has one of these names."""
    return next((cause for cause in _chain(error) if _names(cause).intersection(names)), None)


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and what it came from, down to the HTTP client's."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _is_out_of_credit(error: Exception) -> bool:
    return "insufficient_quota" in _message(error) or status_of(error) == 402  # noqa: PLR2004
