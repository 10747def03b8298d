"""What goes over the wire: every class of chat models, through every entry, to a strict server."""
# ruff: noqa: ANN401 -- entries return what hosts make of a reply

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from langchain.agents import create_agent

from pb_graph import Budget, BudgetedChatModel, TokenBudgetMiddleware, build_graph
from pb_graph.models.client import RetryPolicy
from pb_graph.models.reply import finish_of
from pb_graph.serve.app import Endpoint
from tests.support.strict_server import StrictServer, caps_in
from tests.support.wire import ROWS, Row, matrix

pytestmark = pytest.mark.integration

CAP = 400
QUESTION = {"question": "What is 6 * 7?", "level": 1}
ENTRIES = ("graph", "agent", "model", "endpoint")


class Outcome(NamedTuple):
    """What an entry told of one reply: its text, how it ended, what was counted, and its error."""

    text: str
    finish: str
    counted: float
    error: str = ""


class Entry:
    """One entry of the package in front of a model.

    Args:
        kind: The entry.
        model: The chat model.
        streams: Whether the reply is streamed.
        policy: The cap policy, where the entry takes one.
    """

    def __init__(self, kind: str, model: Any, policy: str | None, *, streams: bool) -> None:
        self.streams, self.budget = streams, Budget(10**6)
        settings = {"method": "global_budget", "budget": CAP, "max_retries": 0}
        if kind in ("graph", "endpoint"):
            self.graph = build_graph(model, settings=settings, cap_policy=policy)
            self.app = Endpoint(self.graph).app()
        elif kind == "agent":
            middleware = TokenBudgetMiddleware(self.budget, per_call=CAP)
            self.agent = create_agent(model, middleware=[middleware])
        else:
            plain = RetryPolicy(max_retries=0)
            if streams and "streaming" in type(model).model_fields:
                model = model.model_copy(update={"streaming": True})
            limits: Any = {"budget": self.budget, "per_call": CAP, "reserve": 0}
            self.model = BudgetedChatModel(model=model, retry_policy=plain, **limits)
        self._ask = getattr(self, f"_ask_{kind}")
        self._runner = asyncio.Runner()
        self.close = self._runner.close

    def outcome(self) -> Outcome:
        """Ask, and tell what came of it."""
        before = self.budget.spent + self.budget.unknown
        try:
            told: Outcome = self._ask()
        except Exception as error:  # noqa: BLE001 -- LangChain's own, too
            counted = getattr(error, "report", {}).get("most_billed", 0)
            told = Outcome("", "error", counted, str(error))
        return told._replace(
            counted=told.counted or self.budget.spent + self.budget.unknown - before
        )

    def _ask_graph(self) -> Outcome:
        if self.streams:
            parts = self.graph.stream(QUESTION, stream_mode=["messages", "values"])
            report = [data for mode, data in parts if mode == "values"][-1]["report"]
        else:
            report = self.graph.invoke(QUESTION)["report"]
        codes = [warning["code"] for warning in report["warnings"]]
        finish = "filter" if "content_filter" in codes else report["finish"]
        return Outcome(report["answer"], finish, report["most_billed"])

    def _ask_agent(self) -> Outcome:
        given: Any = {"messages": [("user", QUESTION["question"])]}
        if self.streams:
            parts = self.agent.stream(given, stream_mode=["messages", "values"])
            state = [data for mode, data in parts if mode == "values"][-1]
        else:
            state = self.agent.invoke(given)
        message = state["messages"][-1]
        return Outcome(message.text, finish_of(message), 0)

    def _ask_model(self) -> Outcome:
        message = self.model.invoke(str(QUESTION["question"]))
        return Outcome(message.text, finish_of(message), 0)

    def _ask_endpoint(self) -> Outcome:
        return self._runner.run(self._post())

    async def _post(self) -> Outcome:
        transport: Any = httpx.ASGITransport(self.app)
        message = {"role": "user", "content": QUESTION["question"]}
        body = {
            "model": "x",
            "level": 1,
            "messages": [message],
            "stream": self.streams,
            "report": True,
        }
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            reply = await client.post("/v1/chat/completions", json=body, timeout=60)
        lines = [line[6:] for line in reply.text.splitlines() if line.startswith("data: {")]
        chunks = [json.loads(line) for line in lines] or [reply.json()]
        counted = chunks[-1]["report"]["most_billed"]
        if "error" in chunks[-1]:
            return Outcome("", "error", counted, chunks[-1]["error"]["message"])
        choices = [choice for chunk in chunks for choice in chunk["choices"]]
        parts = [choice.get("delta", choice.get("message")) for choice in choices]
        said, word = (
            "".join(part.get("content") or "" for part in parts),
            choices[-1]["finish_reason"],
        )
        return Outcome(said, {"content_filter": "filter"}.get(word, word), counted)


@pytest.fixture(params=ROWS, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    given: Row = request.param
    return given


@pytest.fixture
def server(row: Row) -> Iterator[StrictServer]:
    with StrictServer(row.dialect) as made:
        yield made


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", ENTRIES)
def test_every_reply_is_capped_finished_and_counted(
    row: Row, server: StrictServer, kind: str, *, streams: bool
) -> None:
    with closing(Entry(kind, row.make(server), row.policy, streams=streams)) as entry:
        for reason in (*row.complete, *row.filtered, *row.unfinished):
            server.tell(reason)
            outcome = entry.outcome()
            for body in server.bodies:
                assert len(caps_in(body)) == 1, body
                assert f'"{row.cap}": ' in json.dumps(body)
                assert caps_in(body)[0] <= CAP
            assert server.billed <= outcome.counted <= 2 * CAP, reason
            if outcome.error:  # LangChain's own, for a filter's reply or a broken stream
                assert "filter" in outcome.error or reason == "", outcome.error
                continue
            calls = 1 if reason in (*row.complete, *row.filtered) else 2
            assert (reason, len(server.bodies)) == (reason, calls)
            assert ("42" in outcome.text) == (calls == 2), reason
            assert (outcome.finish == "filter") == (reason in row.filtered), reason
        is_told = row.dialect != "strict" or not streams
        usages = (*row.counted, *row.odd) if kind in ("graph", "model") else row.counted[:1]
        for usage in usages:
            server.tell(None, usage)
            counted = entry.outcome().counted
            if usage in row.counted and is_told:
                assert counted == server.billed, usage
            elif usage != "beside":
                assert server.billed <= counted <= CAP, usage


def test_the_matrix_of_the_page_is_what_is_tested() -> None:
    page = Path("docs/recipes/providers.md").read_text("utf-8")
    assert matrix() in page, "python -m tests.support.wire"
