"""Which failed call is worth another attempt, and after how long."""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from time import time
from typing import Any

import pytest
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import SecretStr

from pb_graph.models.retry import RetryPolicy, has_own_retries, without_sdk_retries
from tests.support.chat_model import HTTPError, ScriptedChat


def asking_to_wait(given: str, status: int = 429) -> HTTPError:
    """A refusal with a Retry-After."""
    error: Any = HTTPError(status)
    error.response = type("Response", (), {"headers": {"retry-after": given}})()
    return error  # type: ignore[no-any-return]


def openai(**given: Any) -> ChatOpenAI:  # noqa: ANN401
    return ChatOpenAI(model="m", api_key=SecretStr("sk-test"), **given)


class TestPatience:
    def test_a_call_is_tried_again_three_times_by_default(self) -> None:
        waits = [RetryPolicy().wait(HTTPError(503), failed, 120) for failed in range(1, 6)]
        assert [wait is not None for wait in waits] == [True, True, True, False, False]

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 501])
    def test_what_will_fail_again_is_not_tried_again(self, status: int) -> None:
        assert RetryPolicy().wait(HTTPError(status), 1, 120) is None

    def test_the_upper_end_of_the_wait_doubles_up_to_its_limit(self) -> None:
        policy = RetryPolicy(max_retries=10, initial_interval=1.0, max_interval=4.0)
        for failed, ceiling in enumerate((1.0, 2.0, 4.0, 4.0, 4.0), start=1):
            waits = [policy.wait(TimeoutError(), failed, 120) or 0.0 for _ in range(200)]
            assert 0.8 * ceiling < max(waits) <= ceiling
            assert 0.0 <= min(waits) < 0.2 * ceiling

    def test_callers_that_failed_together_do_not_come_back_together(self) -> None:
        assert len({RetryPolicy().wait(HTTPError(429), 1, 120) for _ in range(50)}) == 50

    @pytest.mark.parametrize("given", ["7", "7.0"])
    def test_what_the_server_asks_for_is_waited_at_least(self, given: str) -> None:
        wait = RetryPolicy(initial_interval=0.5).wait(asking_to_wait(given), 1, 120)
        assert wait is not None
        assert 7 <= wait <= 7.5

    def test_a_server_may_name_a_date(self) -> None:
        wait = RetryPolicy(initial_interval=0).wait(
            asking_to_wait(formatdate(time() + 30, usegmt=True)), 1, 120
        )
        assert wait is not None
        assert 25 < wait <= 30

    @pytest.mark.parametrize("given", ["", "soon", "-5", "nan", "Wed, 21 Oct 2015 07:28:00 GMT"])
    def test_a_wait_that_says_nothing_is_none(self, given: str) -> None:
        assert RetryPolicy(initial_interval=0).wait(asking_to_wait(given), 1, 120) == 0

    @pytest.mark.parametrize("given", ["121", "inf", "1e9"])
    def test_a_server_that_asks_for_too_long_is_not_asked_again(self, given: str) -> None:
        assert RetryPolicy().wait(asking_to_wait(given), 1, 120) is None


class TestWhoRetries:
    @pytest.mark.parametrize(
        ("model", "itself"),
        [
            (ScriptedChat(max_retries=0), False),
            (ScriptedChat(max_retries=2), True),
            (openai(max_retries=0), False),
            (openai(max_retries=2), True),
            (openai(), False),
        ],
        ids=["off", "on", "openai off", "openai on", "openai open"],
    )
    def test_a_model_that_was_told_to_retry_keeps_doing_so(self, model: Any, itself: bool) -> None:  # noqa: ANN401
        assert has_own_retries(model) is itself

    def test_google_counts_attempts(self) -> None:
        google = pytest.importorskip("langchain_google_genai").ChatGoogleGenerativeAI
        for given, itself in ((1, False), (0, True), (6, True)):
            model = google(model="gemini-x", google_api_key="sk-test", max_retries=given)
            assert has_own_retries(model) is itself

    def test_an_open_number_is_taken_over_and_the_connections_are_kept(self) -> None:
        model = openai()
        copy: Any = model.model_copy(update=without_sdk_retries(model))
        for name in ("root_client", "root_async_client"):
            before, after = getattr(model, name), getattr(copy, name)
            assert (before.max_retries, after.max_retries) == (2, 0)
            assert after._client is before._client
        assert copy.client._client.max_retries == copy.async_client._client.max_retries == 0

    def test_azure_is_taken_over_like_openai(self) -> None:
        model = AzureChatOpenAI(
            azure_endpoint="https://example.openai.azure.com",
            api_key=SecretStr("sk-test"),
            api_version="2025-01-01",
            azure_deployment="m",
        )
        changed = without_sdk_retries(model)
        assert changed["root_client"].max_retries == 0
        assert str(changed["root_client"].base_url) == str(model.root_client.base_url)

    @pytest.mark.parametrize(
        "model", [openai(max_retries=2), openai(max_retries=0), ScriptedChat()]
    )
    def test_nothing_else_is_touched(self, model: Any) -> None:  # noqa: ANN401
        assert without_sdk_retries(model) == {}


def test_the_sdks_warn_of_nothing_when_left_unused() -> None:
    async def made() -> None:
        without_sdk_retries(openai())

    asyncio.run(made())
