"""Building and running graphs in tests, sync and async alike."""
# ruff: noqa: ANN401 -- graphs, and what they are given

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal, get_args

import pytest
from pydantic import TypeAdapter

from pb_graph import Budget, NoAnswerError, Settings, build_graph
from pb_graph.settings import PLANNED
from pb_graph.types import Query, Report
from tests.support.chat_model import ScriptedChat, with_schema

Way = Literal["invoke", "ainvoke"]
both_ways = pytest.mark.parametrize("way", get_args(Way))
ENFORCED: dict[str, dict[str, Any]] = {
    "prompt": {"enforcement": "prompt"},
    "cap": {"reserve": 0},
    "force": {},
}
"""The three ways to hold a solver to its budget, as settings."""
QUESTION = {"question": "How many pens does $14 buy at 3 for $2?"}
REPORT: TypeAdapter[Report] = TypeAdapter(Report)

# One step is independent of the others; the last one always puts them together.
DIAMOND = ("First?", "Left? | from the first | after 1", "Right? | after 1", "Both? | after 2, 3")
CHAIN = ("First?", "Second?", "Third?", "Fourth?")


def choices(name: str) -> list[str]:
    """Return the names that a setting takes, in order. Empty if the setting takes no names."""
    schema = Settings.model_json_schema()["properties"][name]
    kinds = (schema, *schema.get("anyOf", ()))
    return next((kind["enum"] for kind in kinds if "enum" in kind), [])


def query(question: str = "What is 6 * 7?", **fields: Any) -> Query:
    """Return a question as the nodes see it."""
    plain: Any = {"question": question, "domain": "mathematics", "level": None}
    plain |= dict.fromkeys(("reference", "instruction", "answer_format"))
    found: Query = plain | fields
    return found


def graph_of(
    model: ScriptedChat,
    *,
    checkpointer: Any = None,
    limit: Budget | None = None,
    cap_policy: Any = with_schema,
    **settings: Any,
) -> Any:
    """Return a graph that plans unless a test says otherwise; its planner sees its schema."""
    return build_graph(
        model,
        settings=Settings(**{"method": PLANNED, "style": "prose", "plan_from": 1} | settings),
        cap_policy=cap_policy,
        checkpointer=checkpointer,
        limit=limit,
    )


def run(graph: Any, given: object = QUESTION, way: Way = "invoke", **options: Any) -> Any:
    """Invoke a graph one way or the other."""
    if way == "invoke":
        return graph.invoke(given, **options)
    return asyncio.run(graph.ainvoke(given, **options))


def streamed(
    graph: Any, given: object = QUESTION, way: Way = "invoke", **options: Any
) -> list[Any]:
    """Return the parts of a stream."""
    if way == "invoke":
        return list(graph.stream(given, **options))

    async def follow() -> list[Any]:
        return [part async for part in graph.astream(given, **options)]

    return asyncio.run(follow())


def report_of(
    model: ScriptedChat, given: Mapping[str, Any] = QUESTION, way: Way = "invoke", **settings: Any
) -> dict[str, Any]:
    """Answer a question, and return its validated report."""
    return checked(run(graph_of(model, **settings), given, way)["report"])


def report_or_error(graph: Any, way: Way = "invoke") -> tuple[dict[str, Any], str]:
    """Return the validated report of a question, and what the error says that carried it."""
    try:
        return checked(run(graph, way=way)["report"]), ""
    except NoAnswerError as error:
        return checked(error.report), str(error)


def checked(report: Any) -> dict[str, Any]:
    """Return the report, which must have exactly its declared type."""
    valid: Any = REPORT.validate_python(report, strict=True, extra="forbid")
    return dict(valid)


def codes(report: Any) -> list[str]:
    """Return the codes of a report's warnings."""
    return [warning["code"] for warning in report["warnings"]]


def timeless(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report without what a clock decides."""
    for usage in (report["usage"], *report["usage"]["by_node"].values()):
        del usage["seconds"]
    return report
