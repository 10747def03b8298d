"""No key and no header gets anywhere: not into a report, a log, an exception or a checkpoint."""

from __future__ import annotations

import json
import logging
import traceback
from typing import Any, get_args

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

from pb_graph import PlanAndBudgetError, Settings, build_graph
from pb_graph.models.client import ChatClient, RetryPolicy
from tests.support.endpoints import chat_to
from tests.support.fault_server import Fault, FaultServer, Script, always, well_behaved
from tests.support.graphs import QUESTION, Way

pytestmark = pytest.mark.integration

# Without any of the forms that keys are known by: nothing but knowing them can hide these.
KEY, HEADER = "canary-of-the-key", "canary-of-a-header"
CANARY = "canary"
THREAD: Any = {"configurable": {"thread_id": "1"}}


def graph_to(
    server: FaultServer,
    saver: InMemorySaver,
) -> Any:  # noqa: ANN401
    model = chat_to(
        server.url,
        api_key=SecretStr(KEY),
        default_headers={"X-Proxy-Authorization": HEADER},
        max_retries=0,
        timeout=0.2,
    )
    client = ChatClient(model, retry_policy=RetryPolicy(1, initial_interval=0.01))
    settings = Settings(execution="stepwise", plan_from=1)
    return build_graph(client, settings=settings, checkpointer=saver)


async def everything_said(graph: Any, way: Way) -> list[str]:  # noqa: ANN401
    """All that a run shows: its events, its states, its report; or its error, as it is printed."""
    said: list[str] = []
    modes = ["custom", "values", "updates", "messages"]
    try:
        if way == "invoke":
            said += [str(part) for part in graph.stream(QUESTION, THREAD, stream_mode=modes)]
        else:
            said += [str(part) async for part in graph.astream(QUESTION, THREAD, stream_mode=modes)]
    except PlanAndBudgetError as error:
        said += traceback.format_exception(error)
        said += [repr(error), json.dumps(vars(error), default=repr)]
        said += [f"{each!r} {each}" for each in chain(error)]
    return said


def chain(error: BaseException | None) -> list[BaseException]:
    """An error and all that it came from."""
    if error is None:
        return []
    return [error, *chain(error.__cause__), *chain(error.__context__)]


def stored(saver: InMemorySaver) -> str:
    """What a checkpointer keeps, as bytes."""
    return f"{saver.storage!r} {saver.writes!r} {saver.blobs!r}"


@pytest.mark.parametrize("way", get_args(Way))
@pytest.mark.parametrize("fault", [None, "bad_key", "unavailable"])
async def test_a_key_stays_where_it_was_given_whatever_happens(
    fault: Fault | None,
    way: Way,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    saver, script = InMemorySaver(), (always(fault) if fault else well_behaved)
    with FaultServer(script, stall=0.4) as server:
        graph = graph_to(server, saver)
        said = await everything_said(graph, way)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].headers["x-proxy-authorization"] == HEADER
    assert said
    assert not [text for text in said if CANARY in text]
    assert CANARY not in stored(saver)
    assert CANARY not in repr(graph)
    assert not [record for record in caplog.records if CANARY in record.getMessage()]
    assert not [text for text in capfd.readouterr() if CANARY in text]


async def test_a_key_that_a_server_repeats_is_blanked_out_in_the_report() -> None:
    def only_the_solver(request: Any) -> Fault | None:  # noqa: ANN401
        return "bad_key" if "sub-question 2 now" in request.text.splitlines()[-1] else None

    script: Script = only_the_solver
    with FaultServer(script) as server:
        out = await graph_to(server, InMemorySaver()).ainvoke(QUESTION, THREAD)
    (warning,) = out["report"]["warnings"]
    assert "Incorrect API key provided: [hidden]" in warning["message"]
