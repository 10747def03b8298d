"""Providers' exceptions as ours: what to do next, and no secret."""

from __future__ import annotations

from json import JSONDecodeError
from types import SimpleNamespace

import httpx
import openai
import pytest
from langchain_core.exceptions import ContextOverflowError, ModelRateLimitError
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph.errors import ModelCallError, PlanAndBudgetError
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


class ResponseError(Exception):
    """Carries its status where httpx and requests put it."""

    def __init__(self, status: object) -> None:
        super().__init__("from the server")
        self.response = SimpleNamespace(status_code=status)


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (400, "context"),
        (401, "API key"),
        (402, "top it up"),
        (403, "permissions"),
        (404, "name and the base URL"),
        (408, r"Settings\.timeout"),
        (413, "shorten"),
        (422, "refused"),
        (429, "rate limit"),
        (500, "try again later"),
        (503, "try again later"),
    ],
)
def test_a_status_says_what_to_do(status: int, remedy: str) -> None:
    error = to_model_call_error(HTTPError(status, "it went wrong"))
    assert isinstance(error, PlanAndBudgetError)
    assert error.status == status
    with pytest.raises(ModelCallError, match=rf"HTTPError \(HTTP {status}\): it went .*{remedy}"):
        raise error


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (TimeoutError(), r"Settings\.timeout"),
        (type("ReadTimeout", (Exception,), {})("slow"), r"Settings\.timeout"),
        (ConnectionError("refused"), "running and reachable"),
        (ValueError(""), "running and reachable"),
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


def test_a_body_that_is_no_completion_says_where_to_look() -> None:
    for error in (JSONDecodeError("Expecting value", "", 0), IndexError("list index out of range")):
        assert is_transient(error)
        assert "base URL" in str(to_model_call_error(error))


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_server_in_trouble_may_recover(status: int) -> None:
    assert is_transient(HTTPError(status))


def test_langchains_errors_say_themselves_whether_they_may_pass() -> None:
    assert is_transient(ModelRateLimitError("slow down"))
    assert not is_transient(ContextOverflowError("too long"))


@pytest.mark.parametrize("error", [HTTPError(400), HTTPError(501), KeyError("x"), ValueError("x")])
def test_a_wrong_request_or_a_mistake_stays_one(error: Exception) -> None:
    assert not is_transient(error)


def never_sent(kind: str = "ConnectError", told: str = "") -> Exception:
    error = ConnectionError("Connection error.")
    error.__cause__ = type(kind, (Exception,), {})(told)
    return error


@pytest.mark.parametrize(
    ("error", "paid"),
    [
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (JSONDecodeError("Expecting value", "", 0), True),
        (ConnectionRefusedError(), False),
        (never_sent(), False),
        (never_sent("UnsupportedProtocol"), False),
        (never_sent("LocalProtocolError"), False),
        (HTTPError(500), False),
        (ValueError("a mistake before the call"), False),
    ],
    ids=repr,
)
def test_an_attempt_may_be_billed_once_the_request_is_on_its_way(
    error: Exception, *, paid: bool
) -> None:
    assert may_be_billed(error) is paid


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        (httpx.UnsupportedProtocol("Request URL is missing a protocol."), "http:// or https://"),
        (httpx.LocalProtocolError("Illegal: b'Bearer canary-77\\n'"), "line break in the API key"),
    ],
)
def test_what_can_never_be_sent_is_not_tried_again_nor_paid_and_says_why(
    cause: Exception, remedy: str
) -> None:
    """As OpenAI's client tells a mistyped base URL, and a key with the end of its line."""
    error = openai.APIConnectionError(request=httpx.Request("POST", "localhost:8000/v1"))
    error.__cause__ = cause
    assert not is_transient(error)
    assert not may_be_billed(error)
    told = to_model_call_error(error)
    assert told.fatal
    assert remedy in str(told)
    assert "canary" not in str(told)


def test_what_kept_a_request_from_being_sent_is_told() -> None:
    dead = to_model_call_error(never_sent(told="certificate has expired"))
    assert "(certificate has expired)" in str(dead)
    assert dead.fatal


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (HTTPError(418), 418),
        (ResponseError(502), 502),
        (ResponseError("502"), None),
        (ResponseError(None), None),
        (ResponseError(200), None),
        (ValueError("x"), None),
        (ValueError({"code": 502, "message": "a router's"}), 502),
        (ValueError({"code": "502", "message": "another's"}), 502),
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
        "Set an API key first.",
        "a task-oriented key-value store",
        "risk-averse monkeys",
    ],
)
def test_what_only_speaks_of_keys_stays_readable(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "text", ["word " * 200_000, "api key" + " " * 300_000, "sk-" * 300_000, "x" * 10**6]
)
def test_a_message_stays_short_however_much_a_server_says(text: str) -> None:
    message = str(to_model_call_error(ValueError(text)))
    assert len(message) < 500
    assert "\n" not in message


@pytest.mark.parametrize(
    "body",
    [
        {"message": "Provider disconnected", "code": 502},  # OpenRouter, vLLM
        {"message": "The server had an error", "type": "server_error", "code": None},  # OpenAI
        {"type": "error", "error": {"type": "overloaded_error", "message": "x"}},  # Anthropic
    ],
)
def test_what_goes_wrong_half_way_through_a_stream_stands_in_the_body(body: object) -> None:
    error = RuntimeError("half-way")
    error.status_code, error.body = 200, body  # type: ignore[attr-defined]
    assert is_transient(error)
