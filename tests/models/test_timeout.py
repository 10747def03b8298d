"""A time limit for calls that have none."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import httpx
import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph.models.client import ChatClient
from pb_graph.models.timeout import own_timeout, within_deadline
from tests.support.chat_model import ScriptedChat

HOST = contextvars.ContextVar("HOST", default="nobody")


def test_a_result_is_handed_over() -> None:
    assert within_deadline(lambda: 42, 5) == 42


def test_an_exception_is_raised_where_the_result_is_awaited() -> None:
    error = ValueError("no")

    def fails() -> None:
        raise error

    with pytest.raises(ValueError, match="no") as caught:
        within_deadline(fails, 5)
    assert caught.value is error


def test_a_call_that_takes_too_long_is_given_up_but_not_stopped() -> None:
    goes_on, ended = threading.Event(), threading.Event()

    def slow() -> None:
        goes_on.wait(5)
        ended.set()

    with pytest.raises(TimeoutError):
        within_deadline(slow, 0.01)
    assert not ended.is_set()
    goes_on.set()
    assert ended.wait(5)


def test_the_call_sees_the_callers_context() -> None:
    HOST.set("a host")
    assert within_deadline(HOST.get, 5) == "a host"


def test_an_abandoned_call_does_not_keep_the_process_alive() -> None:
    assert within_deadline(lambda: threading.current_thread().daemon, 5)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(7, 7.0), (None, None), ((3, 9.5), 9.5), (httpx.Timeout(60, connect=5), 60.0)],
)
def test_a_models_own_limit_is_the_longest_of_its_parts(given: Any, seconds: Any) -> None:  # noqa: ANN401
    class Limited(ScriptedChat):
        request_timeout: Any = given

    assert own_timeout(Limited()) == seconds


@pytest.mark.parametrize(("chosen", "seconds"), [({}, None), ({"stream_chunk_timeout": 5}, 5)])
async def test_a_stream_may_be_silent_as_long_as_a_call_may_take(
    chosen: dict[str, Any], seconds: float | None
) -> None:
    model = ChatOpenAI(model="m", api_key=SecretStr("any"), **chosen)
    _, speaking, _ = await ChatClient(model)._connections.awaited()
    assert vars(speaking)["stream_chunk_timeout"] == seconds
