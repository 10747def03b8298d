"""What a chat model object keeps to itself, in all the forms in which a server may repeat it."""

from __future__ import annotations

import base64
import html
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from pydantic import SecretStr

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)
_QUERIES = frozenset({"default_query", "extra_query"})
_ADDRESS = re.compile(r"base|url|endpoint|proxy", re.IGNORECASE)
_LEAST_SECRET = 4  # a local server's 'x' is none, and would blank out half of the message

# Who writes down the address of a request: httpx at INFO, SDKs (OpenAI's before 3.0) at DEBUG.
_LOGGERS = ("httpx", "httpx2", "openai._base_client", "anthropic._base_client")
_CALLING: ContextVar[bool] = ContextVar("pb_graph_calling", default=False)


class _BareAddresses(logging.Filter):
    """Leaves out of the addresses of our requests what `secrets_of` takes for secret there."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _CALLING.get() and isinstance(record.args, tuple):
            record.args = tuple(_bare(part) for part in record.args)
        return True


for _name in _LOGGERS:
    logging.getLogger(_name).addFilter(_BareAddresses())


@contextmanager
def bare_addresses_in_logs() -> Iterator[None]:
    """Let no user, password or query into the log lines that HTTP clients write meanwhile."""
    token = _CALLING.set(True)
    try:
        yield
    finally:
        _CALLING.reset(token)


def _bare(part: object) -> object:
    copy_with: Any = getattr(part, "copy_with", None)  # httpx has it
    return copy_with(userinfo=b"", query=None) if copy_with else part


def secrets_of(model: BaseChatModel) -> tuple[str, ...]:
    """The keys of a chat model, its headers that are keys, and what its addresses hide.

    Of addresses, the values of the query and the user; of a default query, all values. Each as it
    is, and escaped, URL-encoded and in base64; the longest first.
    """
    found = {text for text in _given(vars(model)) if len(text) >= _LEAST_SECRET}
    forms = {form for text in found for form in _forms(text)}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _given(fields: Mapping[str, Any]) -> Iterator[str]:
    for name, value in fields.items():
        if isinstance(value, SecretStr):
            yield value.get_secret_value()
        elif name in _QUERIES and isinstance(value, Mapping):
            yield from (str(part) for part in value.values())
        elif name == "model_kwargs" and isinstance(value, Mapping):
            yield from _given(value)
        elif isinstance(value, Mapping):
            texts = ((str(key), text) for key, text in value.items() if isinstance(text, str))
            yield from (s for key, text in texts if _SECRET_HEADER.search(key) for s in _said(text))
        elif isinstance(value, str) and _ADDRESS.search(name):
            yield from _in_address(value)


def _said(header: str) -> Iterator[str]:
    """A header's value, what stands behind its scheme (``Bearer KEY``), and a cookie's values."""
    yield header
    yield header.partition(" ")[2]
    yield from (part.partition("=")[2].strip() for part in header.split(";"))


def _in_address(address: str) -> Iterator[str]:
    try:
        parts = urlsplit(address)
        yield from filter(None, (parts.username, parts.password))
        if parts.username:
            yield f"{unquote(parts.username)}:{unquote(parts.password or '')}"  # as it is sent
    except ValueError:
        return  # no address
    yield from (value for _, value in parse_qsl(parts.query))


def _forms(text: str) -> Iterator[str]:
    for plain in {text, unquote(text)}:
        once = {plain, *_escaped(plain), quote(plain, safe=""), quote(plain), quote_plus(plain)}
        yield from once
        yield from (twice for form in once for twice in _escaped(form))
        raw = plain.encode(errors="replace")
        for encoded in (base64.b64encode(raw), base64.urlsafe_b64encode(raw)):
            yield encoded.decode().rstrip("=")


def _escaped(text: str) -> Iterator[str]:
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]
    yield html.escape(text)
