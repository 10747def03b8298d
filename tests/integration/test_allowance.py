"""Dollars of the endpoint: by question, by day, over restarts; asked over loopback."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from pb_graph.errors import InputError
from pb_graph.serve.app import Allowance
from tests.support.endpoints import client_to, endpoint_of
from tests.support.fault_server import FaultServer

pytestmark = pytest.mark.integration

PRICES = {"m": (1.0, 4.0)}
EVENING, MIDNIGHT = datetime(2026, 11, 25, 23, tzinfo=UTC), datetime(2026, 11, 26, tzinfo=UTC)


@pytest.fixture(scope="module")
def model() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


def ask(url: str, usd: str = "", *, stream: bool = False) -> httpx.Response:
    said = {"role": "user", "content": "How many pens does $14 buy at 3 for $2?"}
    body: dict[str, Any] = {"model": "vanilla", "messages": [said], "stream": stream}
    headers = {"X-Budget-Usd": usd} if usd else {}
    return httpx.post(f"{url}/chat/completions", json=body, headers=headers, timeout=60)


def serve(model: FaultServer, allowance: Allowance | None = None) -> Any:  # noqa: ANN401
    return endpoint_of(client_to(model), allowance=allowance, prices=PRICES)


@pytest.mark.parametrize("stream", [False, True])
def test_a_day_that_is_used_up_answers_429_with_its_end_until_the_next_one(
    model: FaultServer, tmp_path: Path, stream: bool
) -> None:
    def at(now: datetime) -> Allowance:
        return Allowance(0.0008, "day", tmp_path / "spending.sqlite", PRICES, lambda: now)

    with serve(model, at(EVENING)) as url:
        statuses = [ask(url, stream=stream).status_code for _ in range(20)]
    assert (statuses[0], statuses[-1]) == (200, 429)
    before = model.served
    with serve(model, at(EVENING)) as url:  # the server was started again
        refused = ask(url, stream=stream)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "3600")
    assert "2026-11-26 00:00 UTC" in refused.json()["error"]["message"]
    assert model.served == before
    with serve(model, at(MIDNIGHT)) as url:
        assert ask(url, stream=stream).status_code == 200


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Name another file with --spending"):
        Allowance(1.0, "day", tmp_path)


def test_a_question_costs_no_more_than_the_dollars_of_its_header(model: FaultServer) -> None:
    with serve(model) as url:
        assert ask(url, "0.01").status_code == 200
        refused = ask(url, "0.00001")
        assert refused.status_code == 502
        assert "$0.00001" in refused.json()["error"]["message"]
        for wrong in ("nan", "-1", "much"):
            assert ask(url, wrong).status_code == 400
