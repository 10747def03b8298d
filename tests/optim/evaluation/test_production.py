"""An evaluation makes the requests of production: the cache wraps its client."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from optim.bench.bench import Runner, build_models
from optim.bench.store import REPLIES, ReplyCache
from optim.methods import methods
from pb_graph import build_graph
from tests.support.chat_model import Call, HTTPError, Said, ScriptedChat, with_schema
from tests.support.evaluations import QUESTIONS, solves

PLAN = "What is given?\nWhat follows?"


def refuses_schemas(call: Call) -> Said:
    """The server knows no schemas, and says so each time."""
    return HTTPError(400, "response_format is not supported") if call.schema else PLAN


def requests(model: ScriptedChat) -> list[tuple[str, bool, int | None]]:
    return [(made.role, made.schema is not None, made.cap) for made in model.calls]


@pytest.mark.parametrize("method", ["cosine", "stepwise"])
def test_the_requests_of_an_evaluation_are_those_of_production(method: str, tmp_path: Path) -> None:
    (row,) = methods(method, {"plan_from": 1})
    production, evaluated = (ScriptedChat(planner=refuses_schemas, solve=solves) for _ in "ab")
    graph = build_graph(production, settings=row.settings, cap_policy=with_schema)
    models = build_models(
        evaluated,
        None,
        settings=row.settings,
        cache=ReplyCache(tmp_path / REPLIES),
        cap_policy=with_schema,
    )
    runner = Runner(row, models)

    async def ask() -> None:
        for question in QUESTIONS[:3]:
            outcome = await runner.answer(question)
            made = await graph.ainvoke(runner._input(question))
            assert (
                outcome.report["usage"]["output_tokens"] == made["report"]["usage"]["output_tokens"]
            )

    asyncio.run(ask())
    assert requests(evaluated) == requests(production)
    assert any(schema for _, schema, _ in requests(evaluated))
