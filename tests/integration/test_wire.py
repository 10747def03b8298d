"""What goes over the wire: every class of chat models, by graphs and agents, to a strict server."""
# ruff: noqa: ANN401 -- entries return what hosts make of a reply

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import pytest
from langchain.agents import create_agent

from pb_graph import Budget, BudgetedChatModel, TokenBudgetMiddleware, build_graph
from pb_graph.models.client import RetryPolicy
from pb_graph.models.reply import finish_of
from tests.support.strict_server import StrictServer, caps_in
from tests.support.wire import ROWS, Row

pytestmark = pytest.mark.integration

CAP = 400
QUESTION = {"question": "What is 6 * 7?", "level": 1}
ENTRIES = [(row, kind) for row in ROWS for kind in ("graph", "agent", "model")]


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
        runner: The event loop that agents are asked in.
    """

    def __init__(
        self, kind: str, model: Any, policy: str | None, runner: asyncio.Runner, *, streams: bool
    ) -> None:
        self.streams, self.budget, self._runner = streams, Budget(10**6), runner
        settings = {"method": "global_budget", "budget": CAP, "max_retries": 0}
        if kind == "graph":
            self.graph = build_graph(model, settings=settings, cap_policy=policy)
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
        return self._runner.run(self._ask_agent_in_a_loop())

    async def _ask_agent_in_a_loop(self) -> Outcome:
        given: Any = {"messages": [("user", QUESTION["question"])]}
        if self.streams:
            parts = self.agent.astream(given, stream_mode=["messages", "values"])
            state = [data async for mode, data in parts if mode == "values"][-1]
        else:
            state = await self.agent.ainvoke(given)
        message = state["messages"][-1]
        return Outcome(message.text, finish_of(message), 0)

    def _ask_model(self) -> Outcome:
        message = self.model.invoke(str(QUESTION["question"]))
        return Outcome(message.text, finish_of(message), 0)


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("row", "kind"), ENTRIES, ids=lambda given: getattr(given, "name", given))
def test_every_reply_is_capped_finished_and_counted(row: Row, kind: str, *, streams: bool) -> None:
    with StrictServer(row.dialect) as server, asyncio.Runner() as runner:
        entry = Entry(kind, row.make(server), row.policy, runner, streams=streams)
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
