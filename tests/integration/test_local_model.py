"""The smallest real model: fetched once, served once, called over loopback, alone and by graphs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_openai import ChatOpenAI

from pb_graph import NoAnswerError, build_graph
from pb_graph.errors import ModelSetupError
from pb_graph.local import server as local
from pb_graph.probe import probe
from tests.support.graphs import checked, codes, run

pytestmark = pytest.mark.integration

NAME = "smollm2-135m"
GIVEN = {"question": "A shop sells pens at 3 for $2. How many pens can be bought with $14?"}
BUDGET = 96


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[local.LocalServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PB_THREADS", "1")  # beside other tests, more threads are slower
        try:
            running = local.serve(NAME)
        except ModelSetupError as error:
            pytest.skip(f"neither the cache nor an index delivers {NAME}: {error}")
    yield running
    running.close()


@pytest.fixture
def chat(server: local.LocalServer) -> ChatOpenAI:
    assert local.serve(NAME) is server
    return local.local_chat_model(NAME)


def test_a_call_without_the_key_is_refused(server: local.LocalServer) -> None:
    def status(headers: dict[str, str]) -> int:
        return httpx.get(f"{server.url}/models", headers=headers, trust_env=False).status_code

    assert status({}) == status({"Authorization": "Bearer guess"}) == 401
    assert status({"Authorization": f"Bearer {server.key}"}) == 200


def test_the_cap_holds_and_usage_is_reported(chat: ChatOpenAI) -> None:
    reply = chat.invoke("Count from one to fifty.", max_tokens=6)
    assert reply.usage_metadata
    assert reply.usage_metadata["output_tokens"] == 6
    assert reply.usage_metadata["input_tokens"] > 0
    assert reply.response_metadata["finish_reason"] == "length"
    assert reply.response_metadata["model_name"] == NAME


def test_a_probe_of_it_raises_no_false_alarm(chat: ChatOpenAI) -> None:
    found = probe(chat)
    assert found.failed == [], found.findings
    assert found.policy == "llama_cpp"


async def test_more_calls_than_slots_are_all_answered(chat: ChatOpenAI) -> None:
    calls = [chat.ainvoke(f"Say {i}.", max_tokens=2) for i in range(2 * local.SLOTS)]
    replies = await asyncio.gather(*calls)
    assert [r.usage_metadata["output_tokens"] for r in replies if r.usage_metadata] == [2] * 8


def answered(**settings: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the report of one question, whose account is LangChain's own and below the limit."""
    graph: Any = build_graph(f"local:{NAME}", settings=settings)
    counter = UsageMetadataCallbackHandler()
    try:
        report = run(graph, GIVEN, config={"callbacks": [counter]})["report"]
    except NoAnswerError as error:
        report = error.report
    seen = sum(usage["output_tokens"] for usage in counter.usage_metadata.values())
    usage = checked(report)["usage"]
    assert usage["measured"]
    assert 0 < usage["output_tokens"] == seen <= report["limit"]
    assert seen == sum(part["output_tokens"] for part in usage["by_node"].values())
    assert report["answer"]
    assert "unreadable_reply" not in codes(report)  # the planner's constrained JSON was read
    return checked(report)


def test_stepwise_solves_each_part_within_its_share() -> None:
    report = answered(plan_from=1, execution="stepwise", budget=BUDGET)
    assert report["budget"] == BUDGET
    assert report["usage"]["by_node"]["solve"]["output_tokens"] <= BUDGET
    assert all(step["question"] for step in report["steps"])
    assert all(step["tokens"] <= step["cap"] for step in report["steps"])


def test_a_single_pass_after_one_planning_call_keeps_to_the_whole_budget() -> None:
    report = answered(plan_from=1, planning="fused", reserve=0, budget=BUDGET)
    parts = report["usage"]["by_node"]
    (solving,) = parts.keys() - {"estimate", "plan"}  # "solve" for a plan of one step
    assert parts[solving]["output_tokens"] <= BUDGET
    assert sum(step["share"] or 0 for step in report["steps"]) == BUDGET
