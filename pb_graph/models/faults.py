"""A provider's exception as one of ours: what happened, what to do, and no secret in it."""

from __future__ import annotations

import re

from pb_graph.errors import ModelCallError

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

_REMEDIES = {
    400: "The request was refused; a prompt longer than the model's context is a common cause.",
    401: "The server refused the API key: check the provider's key variable.",
    403: "This key may not use this model: check its permissions.",
    404: "The server does not know this model or path: check the model's name and the base URL.",
    408: "The server gave up waiting: try again, or raise Settings.timeout.",
    413: "The request is too large: shorten the question or its reference.",
    429: "The server's rate limit is reached: wait, or lower the concurrency.",
}


def explain(error: Exception) -> ModelCallError:
    """Wrap any exception of a model call; the original stays reachable as the cause."""
    if isinstance(error, ModelCallError):
        return error
    status = status_of(error)
    kind = type(error).__name__
    detail = " ".join(scrub(str(error)[:_MAX_READ]).split())[:_MAX_DETAIL]
    msg = f"The model call failed with {kind}{f' (HTTP {status})' if status else ''}: {detail}"
    return ModelCallError(f"{msg} {_remedy(error, status)}", status=status)


def status_of(error: Exception) -> int | None:
    """The HTTP status behind an exception, if it carries one."""
    found = getattr(error, "status_code", None)
    if found is None:
        found = getattr(getattr(error, "response", None), "status_code", None)
    return found if isinstance(found, int) else None


def scrub(text: str) -> str:
    """Blank out what looks like a key."""
    return _SECRETS.sub(r"\1[hidden]", text)


def _remedy(error: Exception, status: int | None) -> str:
    if status is not None:
        default = "The server is in trouble: try again later."
        return _REMEDIES.get(status, default if status >= 500 else _REMEDIES[400])  # noqa: PLR2004
    if "timeout" in type(error).__name__.lower():
        return "Raise Settings.timeout, or lower the budget."
    return "Check that the model's server is running and reachable."
