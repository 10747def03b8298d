"""Providers' exceptions as ours: what to do next, and no secret."""

from __future__ import annotations

from json import JSONDecodeError
from types import SimpleNamespace

import pytest
from langchain_core.exceptions import ContextOverflowError, ModelRateLimitError
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph.errors import ModelCallError
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
    ("status", "remedy"),
    [
        (400, "context"),
        (401, "API key"),
        (402, "top it up"),
        (404, "name and the base URL"),
        (422, "refused"),
        (429, "rate limit"),
        (503, "try again later"),
    ],
)
def test_a_status_says_what_to_do(status: int, remedy: str) -> None:
    error = to_model_call_error(HTTPError(status, "it went wrong"))
    assert error.status == status
    with pytest.raises(ModelCallError, match=rf"HTTPError \(HTTP {status}\): it went .*{remedy}"):
        raise error


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (TimeoutError(), r"Settings\.timeout"),
        (ConnectionError("refused"), "running and reachable"),
        (JSONDecodeError("Expecting value", "", 0), "base URL"),
        (IndexError("list index out of range"), "base URL"),
    ],
)
def test_without_a_status_the_kind_of_error_says_it(error: Exception, remedy: str) -> None:
    explained = to_model_call_error(error)
    assert explained.status is None
    with pytest.raises(ModelCallError, match=rf"{type(error).__name__}.*{remedy}"):
        raise explained


def test_used_up_credit_is_no_rate_limit() -> None:
    error = HTTPError(429, "Error code: 429 - {'code': 'insufficient_quota'}")
    assert not is_transient(error)
    assert "top it up" in str(to_model_call_error(error))


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (HTTPError(408), True),
        (HTTPError(429), True),
        (HTTPError(503), True),
        (HTTPError(529), True),
        (HTTPError(400), False),
        (HTTPError(501), False),
        (ModelRateLimitError("slow down"), True),
        (ContextOverflowError("too long"), False),
        (KeyError("x"), False),
        (ValueError("x"), False),
    ],
    ids=repr,
)
def test_a_server_in_trouble_may_recover_and_a_wrong_request_stays_one(
    error: Exception, *, transient: bool
) -> None:
    assert is_transient(error) is transient


def never_sent() -> Exception:
    error = ConnectionError("Connection error.")
    error.__cause__ = type("ConnectError", (Exception,), {})("certificate has expired")
    return error


@pytest.mark.parametrize(
    ("error", "paid"),
    [
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (JSONDecodeError("Expecting value", "", 0), True),
        (KeyError("choices"), True),
        (ConnectionRefusedError(), False),
        (never_sent(), False),
        (HTTPError(500), False),
        (ValueError("a mistake before the call"), False),
        (ValueError("No generation chunks were returned"), True),
    ],
    ids=repr,
)
def test_an_attempt_may_be_billed_once_the_request_is_on_its_way(
    error: Exception, *, paid: bool
) -> None:
    assert may_be_billed(error) is paid


def test_what_kept_a_request_from_being_sent_is_told() -> None:
    dead = to_model_call_error(never_sent())
    assert "(certificate has expired)" in str(dead)


def from_google(status: int) -> Exception:
    """An error of LangChain's, in front of the SDK's that has the status."""
    error = ModelRateLimitError("slow down")
    error.__cause__ = type("APIError", (Exception,), {"code": status})()
    return error


def with_response(status: int) -> Exception:
    error = ValueError("from the server")
    error.response = SimpleNamespace(status_code=status)  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (HTTPError(418), 418),
        (with_response(502), 502),
        (with_response(200), None),
        (from_google(429), 429),
        (ValueError({"code": 502, "message": "OpenRouter's, in a response that says 200"}), 502),
        (ValueError({"code": "bad"}), None),
    ],
)
def test_a_status_is_found_wherever_sdks_keep_it(error: Exception, status: int | None) -> None:
    assert status_of(error) == status


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-Ab12_cd34-Ef56.",
        "Authorization: Bearer eyJhbGciOi.Ab12_cd34-Ef56",
        '{"api_key": "Ab12_cd34-Ef56"}',
        "GET https://host/v1/models?alt=sse&key=Ab12_cd34-Ef56 failed",
    ],
)
def test_what_looks_like_a_key_is_blanked_out(text: str) -> None:
    said = redact(text)
    assert "Ef56" not in said
    assert "[hidden]" in said


def test_a_models_own_keys_and_headers_are_blanked_out_whatever_they_look_like() -> None:
    headers = {"Authorization": "Bearer some token"}
    model = ChatOpenAI(model="m", api_key=SecretStr("my key"), default_headers=headers)
    assert redact("my key, some token", secrets_of(model)) == "[hidden], [hidden]"


def test_an_error_that_shows_a_key_is_no_cause_of_ours() -> None:
    assert safe_cause(ValueError("bad my-key"), ["my-key"]) is None
    error = ValueError("bad")
    assert safe_cause(error, ["my-key"]) is error


@pytest.mark.parametrize(
    "text",
    [
        "The api_key client option must be set, or the OPENAI_API_KEY environment variable",
        "a task-oriented key-value store",
    ],
)
def test_what_only_speaks_of_keys_stays_readable(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("text", ["word\n" * 200_000, "api key" + " " * 300_000])
def test_a_message_stays_short_however_much_a_server_says(text: str) -> None:
    message = str(to_model_call_error(ValueError(text)))
    assert len(message) < 500
    assert "\n" not in message
