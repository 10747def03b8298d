"""Providers' exceptions as ours: what to do next, and no secret."""

from __future__ import annotations

import re
from json import JSONDecodeError
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError, ModelRateLimitError
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph.models.provider_errors import (
    is_transient,
    may_be_billed,
    redact,
    safe_cause,
    secrets_of,
    status_of,
    to_model_call_error,
)
from tests.support.chat_model import HTTPError


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (HTTPError(400), "context"),
        (HTTPError(401), "API key"),
        (HTTPError(402), "top it up"),
        (HTTPError(404), "name and the base URL"),
        (HTTPError(422), "refused"),
        (HTTPError(429), "rate limit"),
        (HTTPError(503), "try again later"),
        (TimeoutError(), r"Settings\.timeout"),
        (ConnectionError("refused"), "running and reachable"),
        (JSONDecodeError("Expecting value", "", 0), "base URL"),
        (TypeError("a mistake in the class of a user's model"), "if it is yours"),
        (HTTPError(429, "{'code': 'insufficient_quota'}"), "top it up"),
    ],
    ids=repr,
)
def test_an_error_says_what_happened_and_what_to_do(error: Exception, remedy: str) -> None:
    explained = to_model_call_error(error)
    assert explained.status == getattr(error, "status_code", None)
    assert re.search(rf"{type(error).__name__}.*{remedy}", str(explained))


def never_sent() -> Exception:
    error = ConnectionError("Connection error.")
    error.__cause__ = type("ConnectError", (Exception,), {})("certificate has expired")
    return error


def test_the_first_cause_is_told_where_clients_repeat_each_other() -> None:
    said = str(to_model_call_error(never_sent()))
    assert (said.count("Connection error."), said.count("certificate has expired")) == (1, 1)
    long = str(to_model_call_error(ValueError("word\n" * 200_000)))
    assert len(long) < 500
    assert "\n" not in long


@pytest.mark.parametrize(
    ("error", "is_tried_again", "is_billed"),
    [
        (HTTPError(400), False, False),
        (HTTPError(429), True, False),
        (HTTPError(429, "{'code': 'insufficient_quota'}"), False, False),
        (HTTPError(503), True, False),
        (HTTPError(501), False, False),
        (HTTPError(529), True, False),
        (HTTPError(500), True, True),
        (HTTPError(504), True, True),
        (RuntimeError("raised by a callback after the reply"), False, True),
        (ModelRateLimitError("slow down"), True, False),
        (ContextOverflowError("too long"), False, False),
        (never_sent(), True, False),
        (ConnectionRefusedError(), True, False),
        (ConnectionResetError(), True, True),
        (TimeoutError(), True, True),
        (JSONDecodeError("Expecting value", "", 0), True, True),
        (KeyError("choices"), False, True),
        (ValueError("a mistake before the call"), False, False),
    ],
    ids=repr,
)
def test_an_attempt_may_be_billed_once_the_request_is_on_its_way(
    error: Exception, *, is_tried_again: bool, is_billed: bool
) -> None:
    assert (is_transient(error), may_be_billed(error)) == (is_tried_again, is_billed)


def with_status(status: int) -> Exception:
    """Return an error with a response, as the cause of one of LangChain's."""
    error = ModelRateLimitError("slow down")
    error.__cause__ = ValueError("from the server")
    error.__cause__.response = SimpleNamespace(status_code=status)  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (HTTPError(418), 418),
        (with_status(502), 502),
        (ValueError({"code": 502, "message": "OpenRouter's, in a response that says 200"}), 502),
    ],
)
def test_a_status_is_found_wherever_sdks_keep_it(error: Exception, status: int | None) -> None:
    assert status_of(error) == status


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-Ab12_cd34-Ef56.",
        "Authorization: Bearer eyJhbGciOi.Ab12_cd34-Ef56",
        "Authorization: Basic Ab12cd34Ef56==",
        '{"api_key": "Ab12_cd34-Ef56"}',
        "GET https://host/v1/models?alt=sse&key=Ab12_cd34-Ef56 failed",
        "GET https://host/v1?subscription-key=Ab12_cd34-Ef56 failed",
        "https://me:Ab12_cd34-Ef56@host/v1",
        "AKIAAB12CD34Ef56",
    ],
)
def test_what_looks_like_a_key_is_blanked_out(text: str) -> None:
    said = redact(text)
    assert "Ef56" not in said
    assert "[hidden]" in said


@pytest.mark.parametrize(
    "text",
    [
        "The api_key client option must be set, or the OPENAI_API_KEY environment variable",
        "a task-oriented key-value store",
        "at http://127.0.0.1:8000/v1, see https://host/docs?page=basic",
    ],
)
def test_what_only_speaks_of_keys_stays_readable(text: str) -> None:
    assert redact(text) == text


HIDDEN = "the password"  # looks like no key


@pytest.mark.parametrize(
    "fields",
    [
        {"api_key": SecretStr(HIDDEN)},
        {"default_headers": {"Authorization": f"Bearer {HIDDEN}"}},
        {"default_query": {"code": HIDDEN}},
        {"model_kwargs": {"extra_headers": {"x-key": HIDDEN}}},
        {"extra_body": {"provider": {"api_key": HIDDEN}}},
        {"base_url": "https://me:the%20password@host/v1"},
        {"base_url": "https://host/v1?sig=the+password"},
        {"openai_proxy": "http://me:the%20password@proxy:1"},
    ],
)
def test_a_models_own_keys_are_blanked_out_in_every_form_of_them(fields: dict[str, Any]) -> None:
    model = ChatOpenAI(**{"model": "m", "api_key": SecretStr("sk-x")} | fields)
    said = redact(f"{HIDDEN}, the%20password, the+password", secrets_of(model))
    assert said == ", ".join(["[hidden]"] * 3)


def test_keys_in_the_settings_of_a_client_are_blanked_out() -> None:
    own: Any = {"headers": {"x": HIDDEN}, "auth": ("me", HIDDEN), "cookies": {"session": HIDDEN}}
    for name, value in own.items():
        model = ChatOllama(model="m", client_kwargs={name: value})
        assert redact(HIDDEN, secrets_of(model)) == "[hidden]", name


def test_an_error_that_shows_a_key_is_no_cause_of_ours() -> None:
    assert safe_cause(ValueError("bad my-key"), ["my-key"]) is None
    error = ValueError("bad")
    assert safe_cause(error, ["my-key"]) is error
