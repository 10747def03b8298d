"""After how long a failed call is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from pb_graph.models.client import RetryPolicy
from tests.support.chat_model import HTTPError


def asking_to_wait(given: str) -> HTTPError:
    """A refusal with a Retry-After."""
    error: Any = HTTPError(429)
    error.response = type("Response", (), {"headers": {"retry-after": given}})()
    return error  # type: ignore[no-any-return]


def test_a_call_is_tried_again_three_times_by_default() -> None:
    waits = [RetryPolicy().wait(HTTPError(503), failed, 120) for failed in range(1, 6)]
    assert [wait is not None for wait in waits] == [True, True, True, False, False]
    assert RetryPolicy().wait(HTTPError(400), 1, 120) is None


def test_the_upper_end_of_the_wait_doubles_up_to_its_limit() -> None:
    policy = RetryPolicy(max_retries=10, initial_interval=1.0, max_interval=4.0)
    for failed, ceiling in enumerate((1.0, 2.0, 4.0, 4.0), start=1):
        waits = [policy.wait(TimeoutError(), failed, 120) or 0.0 for _ in range(200)]
        assert 0.8 * ceiling < max(waits) <= ceiling
        assert 0.0 <= min(waits) < 0.2 * ceiling


@pytest.mark.parametrize(("given", "seconds"), [("7", 7), ("soon", 0)])
def test_the_wait_that_a_server_asks_for_is_kept(given: str, seconds: float) -> None:
    assert RetryPolicy(initial_interval=0).wait(asking_to_wait(given), 1, 120) == seconds


def test_a_server_that_asks_for_too_long_is_not_asked_again() -> None:
    assert RetryPolicy().wait(asking_to_wait("121"), 1, 120) is None
