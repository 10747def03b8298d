"""Convert a provider's exception, known by its status and class names, to one of this package."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from langchain_core.exceptions import ModelError
from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from pb_graph.budget.bill import Bill
from pb_graph.errors import InputError, ModelCallError
from pb_graph.models.options import address_of, describe_model
from pb_graph.types import Charge

_SECRETS = re.compile(
    r"(bearer\s+|authorization\W+\w+\s+|api[-_ ]?key\s+(?=[\w.*-]*\d)|://[^\s/:@]*:(?=[^\s/@]*@)"
    r"|(?:(?:api|access|auth|secret|subscription)[-_ ]?(?:key|token)|password)['\"]?"
    r"(?:\s+provided)?\s*[:=]\s*['\"]?|\b(?:sk[-_]|gh[opsu]_|AIza|AKIA|eyJ)"
    r"|[?&][\w.-]*(?:key|token|secret|password|sig|signature|code)="
    r"|\b(?:key|gsk|hf|xai|pplx|nvapi|csk|fw|tgp|r8|glpat)[-_](?=[\w.*-]*\d))[\w.*+/=%~-]{6,}",
    re.IGNORECASE,
)
# Fields that hold keys, and objects whose values may all be keys.
_HOLDS_SECRETS = re.compile(
    r"(^|[._])(auth|cookies|headers|query|params|password)\b"
    r"|(api|access|auth|bearer|secret|session|hub)\w*(key|token)"
)
_HOLDS_ADDRESS = re.compile(r"(api_base|base_url|endpoint|url|proxy)$")
_MIN_SECRET = 4  # the dummy key 'x' of a local server would redact half of the message
_MAX_DETAIL, _MAX_READ, _PAYMENT = 300, 10_000, 402
REFUSED = frozenset({400, 422})


class Fault(NamedTuple):
    """Meaning of a failed call."""

    is_transient: bool  # the same request may succeed later
    may_be_billed: bool  # the model may have written an answer, which the provider charges for
    remedy: str


_SLOW = "Raise Settings.timeout, or the model object's own, or lower the budget."
_DOWN = "Check that the model's server is running and reachable."
_UNREADABLE = "The reply could not be read: check the base URL, or the model class if it is yours."
_OTHER = "The error is that of the model's class: check its arguments."
_REMEDIES = {
    400: "The request was refused; a prompt longer than the model's context is a common cause.",
    401: "The server refused the API key: check the provider's key variable.",
    _PAYMENT: "The account has no credit left: top it up, or use another key.",
    403: "This key may not use this model: check its permissions.",
    404: "The server does not know this model or path: check the model's name and the base URL.",
    429: "The server's rate limit is reached: wait, or lower the concurrency.",
    500: "The server is in trouble: try again later.",
}
_BUSY = {408, 409, 429, 503, 529}  # refused at once, and worth another attempt
_LOST = {*range(500, 600)} - _BUSY - {501}  # behind a gateway, the model may have answered
_NO_SERVER = {"ConnectError", "ConnectTimeout", "ConnectionRefusedError", "gaierror"}
# Errors without a status, by the class names of an error and its causes; the first row holds.
_FAULTS: list[tuple[set[str], Fault]] = [
    ({"ConnectTimeout", "PoolTimeout"}, Fault(True, False, _SLOW)),
    (_NO_SERVER | {"UnsupportedProtocol", "LocalProtocolError"}, Fault(True, False, _DOWN)),
    ({"ModelAuthenticationError", "ModelPermissionDeniedError"}, Fault(False, False, _OTHER)),
    ({"ModelInvalidRequestError", "ContextOverflowError"}, Fault(False, False, _OTHER)),
    ({"ModelNotFoundError", "ModelRateLimitError"}, Fault(False, False, _OTHER)),
    ({"TimeoutError", "TimeoutException", "ModelTimeoutError"}, Fault(True, True, _SLOW)),
    ({"JSONDecodeError", "APIResponseValidationError"}, Fault(True, True, _UNREADABLE)),
    ({"ConnectionError", "APIError", "TransportError"}, Fault(True, True, _DOWN)),
    ({"ClientConnectionError", "ClientPayloadError", "HTTPClientError"}, Fault(True, True, _DOWN)),
    ({"BotoCoreError", "GoogleAuthError"}, Fault(False, False, _OTHER)),  # such as no credentials
    ({"AttributeError", "LookupError", "TypeError"}, Fault(False, True, _UNREADABLE)),
    ({"ValidationError"}, Fault(False, True, _UNREADABLE)),
]
# Raised by LangChain if a response is no completion.
_NO_COMPLETION = re.compile(r"Unexpected response type|No generation|content filter being")
_UNSENT = {"ValueError", "NotImplementedError", "ImportError"}  # of arguments that make no request


def fault_of(error: Exception) -> Fault:
    """Return what an exception of a model call means; only a refusal is sure not to be billed."""
    status, text, names = status_of(error), _message(error), _names(error)
    if status == _PAYMENT or "insufficient_quota" in text:  # which is no rate limit
        return Fault(False, False, _REMEDIES[_PAYMENT])
    if status is not None:
        remedy = _REMEDIES.get(status, _REMEDIES[400 if status < min(_LOST) else 500])
        fault = Fault(status in _BUSY | _LOST, status in _LOST, remedy)
    elif _NO_COMPLETION.search(text):
        fault = Fault(False, True, _UNREADABLE)
    else:
        other = Fault(False, type(error).__name__ not in _UNSENT, _OTHER)
        fault = next((fault for known, fault in _FAULTS if known & names), other)
    if isinstance(error, ModelError):  # LangChain says so itself
        return fault._replace(is_transient=error.is_retryable)
    return fault


def to_model_call_error(
    error: Exception, model: BaseChatModel, lost: tuple[Charge, ...] = (), attempts: int = 1
) -> ModelCallError:
    """Convert an exception of a model call to an error of this package, with no secrets in it.

    Args:
        error: Any exception of a model call.
        model: The model, whose secrets are blanked out.
        lost: Charges of the attempts that failed.
        attempts: Number of attempts that failed.
    """
    status, text, secrets = status_of(error), _message(error), secrets_of(model)
    *_, first = _chain(error)
    if status is None and str(first) not in text:  # SDKs say no more than 'Connection error.'
        text += f" ({first})"
    detail = " ".join(redact(text, secrets).split())[:_MAX_DETAIL].rstrip(". ")
    kind = type(error).__name__ + (f" (HTTP {status})" if status else "")
    reason = f"{kind}: {detail}." if detail else f"{kind}."
    times = f", {attempts} times," if attempts > 1 else ""
    to = redact(describe_model(model), secrets)
    msg = f"The model call to {to} failed{times} with {reason} {fault_of(error).remedy}"
    made = ModelCallError(msg, status, lost)
    shown = " ".join(f"{cause!s} {cause!r}"[:_MAX_READ] for cause in _chain(error))
    made.__cause__ = error if redact(shown, secrets) == shown else None
    return made


def explain(error: Exception, model: BaseChatModel) -> None:
    """Put the model's address and the remedy into a provider's exception, which keeps its type."""
    if error.args and isinstance(error.args[0], str) and not isinstance(error, ModelCallError):
        error.args = (str(to_model_call_error(error, model)), *error.args[1:])
        if hasattr(error, "error"):  # the text of Ollama's
            error.error = error.args[0]


def status_of(error: Exception) -> int | None:
    """Return the HTTP status of a refusal behind an exception, if it carries one."""
    for cause in _chain(error):
        body = cause.args[0] if cause.args else None  # a router's refusal with status 200
        code = body.get("code") if isinstance(body, Mapping) else getattr(cause, "code", None)
        response = getattr(cause, "response", None)
        codes = [getattr(source, "status_code", None) for source in (cause, response)]
        if isinstance(response, Mapping):  # of Bedrock
            codes.append((response.get("ResponseMetadata") or {}).get("HTTPStatusCode"))
        for status in (code, *codes):
            if isinstance(status, int) and status >= 400:  # noqa: PLR2004
                return status
    return None


def refusal_of(error: Exception) -> str:
    """Return what a server says of a request that it refused as wrong; empty for other errors."""
    return f"{error} {_message(error)}" if status_of(error) in REFUSED else ""


def is_lasting(failure: ModelCallError) -> bool:
    """Return whether a failure will last: a key or a name is refused, or no server listens."""
    return failure.status in {401, 403, 404} or not _names(failure).isdisjoint(_NO_SERVER)


def tokens_of_error(error: Exception) -> Bill | None:
    """Return the tokens that a failed attempt cost; None if it was refused or never sent."""
    # OpenAI's client raises if a reply to a schema was cut off. The error carries the paid reply.
    usage: Any = getattr(getattr(error, "completion", None), "usage", None)
    with suppress(InputError, AttributeError):
        return Bill(input=usage.prompt_tokens, output=usage.completion_tokens)
    # Not measured: any amount up to the cap may be billed.
    return Bill(is_measured=False) if usage or fault_of(error).may_be_billed else None


def retry_after(error: Exception) -> float:
    """Return the seconds that the server asked to wait (``Retry-After``); else 0."""
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    given = str(headers.get("retry-after", 0))
    with suppress(ValueError):
        return max(0.0, float(given))
    with suppress(ValueError, TypeError):  # a date
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    return 0.0


def secrets_of(model: BaseChatModel) -> tuple[str, ...]:
    """Return the keys of a chat model, its headers and queries, which may hold keys."""
    keys = _secrets_in("", vars(model))
    keys += [key.partition(" ")[2] for key in keys]  # the key in 'Bearer KEY'
    urls = [str(value) for name, value in vars(model).items() if _HOLDS_ADDRESS.search(name)]
    for parts in map(urlsplit, [*urls, address_of(model)]):
        keys += [parts.query, *(value for _, value in parse_qsl(parts.query))]
        keys += map(unquote, filter(None, (parts.username, parts.password)))
    # A server may repeat a secret in the form that it has in a URL or in JSON.
    written = [(key, quote(key, ""), quote_plus(key), json.dumps(key)[1:-1]) for key in keys]
    found = {form for forms in written for form in forms if len(form) >= _MIN_SECRET}
    return tuple(sorted(found, key=len, reverse=True))


def _secrets_in(path: str, value: object) -> list[str]:
    if isinstance(value, SecretStr):
        return [value.get_secret_value()]
    if isinstance(value, Mapping | list | tuple):
        below = value.items() if isinstance(value, Mapping) else enumerate(value)
        found = (_secrets_in(f"{path}.{name}".lower(), inner) for name, inner in below)
        return [secret for secrets in found for secret in secrets]
    return [value] if isinstance(value, str) and _HOLDS_SECRETS.search(path) else []


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """Return a text without its secrets (of `secrets_of`) and whatever looks like a key."""
    for secret in secrets:
        text = text.replace(secret, "[hidden]")
    return _SECRETS.sub(r"\1[hidden]", text)


def _message(error: Exception) -> str:
    """Return the whole message of a refusal; OpenAI's SDK 3 shows only a part."""
    return str(getattr(error, "body", None) or error)[:_MAX_READ]


def _names(error: BaseException) -> set[str]:
    """Return the names of the classes of an error and of its causes, base classes included."""
    return {kind.__name__ for cause in _chain(error) for kind in type(cause).__mro__}


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes, down to the HTTP client's."""
    yield error
    if cause := error.__cause__ or error.__context__:
        yield from _chain(cause)
