"""The account against the bill of a server that lies, breaks off, or takes no notice of caps."""

from __future__ import annotations

from typing import Any

import pytest

from pb_graph import NoAnswerError
from tests.integration.test_faults import graph_to
from tests.support.fault_server import FaultServer, always
from tests.support.graphs import QUESTION, checked, codes

pytestmark = pytest.mark.integration

ANSWER = "so it is 42 then. Final answer: 42"
both = pytest.mark.parametrize("streams", [False, True], ids=["plain", "streamed"])


def account(server: FaultServer, *, streams: bool = False, **settings: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the report of a question, also of one that could not be answered."""
    modes = ["values", "messages"] if streams else ["values"]
    try:
        *_, (_, last) = graph_to(server, retries=2, **settings).stream(QUESTION, stream_mode=modes)
        return checked(last["report"])
    except NoAnswerError as error:
        return checked(error.report)


@both
def test_the_limit_holds_whatever_is_lost(*, streams: bool) -> None:
    with FaultServer(always("half_stream"), answer="word " * 10_000) as server:
        report = account(server, streams=streams)
    assert server.billed <= report["most_billed"] <= report["limit"]


@both
def test_a_server_that_ignores_its_cap_is_named(*, streams: bool) -> None:
    with FaultServer(answer="word " * 3000, obeys_cap=False) as server:
        report = account(server, streams=streams, method="vanilla", cutoff=500)
    assert report["usage"]["output_tokens"] == server.billed > report["limit"]
    assert "cap_ignored" in codes(report)
