"""Which failed call is worth another attempt, and after how long."""

from __future__ import annotations

from email.utils import formatdate
from time import time
from typing import Any

import httpx
import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import SecretStr

from pb_graph.models.chat_models import own_timeout, without_sdk_retries
from pb_graph.models.client import RetryPolicy
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


class TestRetriesOfTheSDK:
    @pytest.mark.parametrize("given", [None, 0, 2])
    def test_openai_repeats_nothing_and_keeps_its_connections(self, given: int | None) -> None:
        model = openai(max_retries=given)
        copy = without_sdk_retries(model)
        for name in ("root_client", "root_async_client"):
            before, after = getattr(model, name), getattr(copy, name)
            assert (before.max_retries, after.max_retries) == (2 if given is None else given, 0)
            assert after._client is before._client
        assert copy.client._client.max_retries == copy.async_client._client.max_retries == 0

    def test_azure_is_like_openai(self) -> None:
        model = AzureChatOpenAI(
            azure_endpoint="https://example.openai.azure.com",
            api_key=SecretStr("sk-test"),
            api_version="2025-01-01",
            azure_deployment="m",
        )
        copy = without_sdk_retries(model)
        assert copy.root_client.max_retries == 0
        assert str(copy.root_client.base_url) == str(model.root_client.base_url)

    def test_anthropic_repeats_nothing_after_a_call_of_its_own_either(self) -> None:
        anthropic = pytest.importorskip("langchain_anthropic").ChatAnthropic
        model = anthropic(model="claude-sonnet-5", api_key="sk-test")
        assert (model._client.max_retries, model._async_client.max_retries) == (2, 2)
        copy = without_sdk_retries(model)
        assert (copy._client.max_retries, copy._async_client.max_retries) == (0, 0)
        assert model._client.max_retries == 2

    @pytest.mark.parametrize("given", [0, 1, 6])
    def test_google_makes_one_attempt(self, given: int) -> None:
        google = pytest.importorskip("langchain_google_genai").ChatGoogleGenerativeAI
        model = google(model="gemini-x", google_api_key="sk-test", max_retries=given)
        assert without_sdk_retries(model).max_retries == 1

    def test_a_model_without_the_setting_stays_as_it_is(self) -> None:
        model = FakeListChatModel(responses=[""])
        assert without_sdk_retries(model) is model


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(7, 7.0), (None, None), ((3, 9.5), 9.5), (httpx.Timeout(60, connect=5), 60.0)],
)
def test_a_models_own_limit_is_the_longest_of_its_parts(given: Any, seconds: Any) -> None:  # noqa: ANN401
    class Limited(ScriptedChat):
        request_timeout: Any = given

    assert own_timeout(Limited()) == seconds
