"""The whole package on the smallest real model: a question goes in, a budgeted answer comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.callbacks import UsageMetadataCallbackHandler

from optim.rivals import adaptive_consistency, certaindex
from pb_graph import NoAnswerError, Settings, build_graph
from pb_graph.errors import WeightsError
from pb_graph.local import server as local
from pb_graph.local import weights
from pb_graph.types import Report
from tests.support.graphs import checked, codes

pytestmark = pytest.mark.integration

NAME = "smollm2-135m"
GIVEN = {"question": "A shop sells pens at 3 for $2. How many pens can be bought with $14?"}
BUDGET = 96


@pytest.fixture(scope="module", autouse=True)
def weights_are_here() -> Iterator[None]:
    """Fetched and verified as a user's are; the server that they are loaded into ends with us."""
    try:
        weights.fetch(NAME)
    except WeightsError as error:
        pytest.skip(f"the weights of {NAME} cannot be had here: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PB_THREADS", "1")  # beside other work, more threads are slower
        server = local.serve(NAME)
    yield
    server.close()


def answered(way: str = "invoke", **settings: Any) -> tuple[Report, int]:  # noqa: ANN401
    """The report of one question, and the completion tokens that LangChain's own counter saw."""
    graph: Any = build_graph(f"local:{NAME}", settings=Settings(**settings))
    counter = UsageMetadataCallbackHandler()
    config: Any = {"callbacks": [counter]}
    try:
        if way == "invoke":
            report = graph.invoke(GIVEN, config)["report"]
        else:
            report = asyncio.run(graph.ainvoke(GIVEN, config))["report"]
    except NoAnswerError as error:
        report = error.report
    seen = sum(usage["output_tokens"] for usage in counter.usage_metadata.values())
    return checked(report), seen


def assert_accounts(report: Report, seen: int) -> None:
    usage = report["usage"]
    assert usage["measured"]
    assert usage["output_tokens"] == seen > 0
    assert usage["output_tokens"] == sum(
        part["output_tokens"] for part in usage["by_node"].values()
    )
    assert report["ceiling"] is not None
    assert usage["output_tokens"] <= report["ceiling"]
    assert report["answer"]


def assert_planned(report: Report) -> None:
    """The planner's JSON, which the server constrains, was read without falling back."""
    assert not {"unreadable_reply", "single_step"} & {*codes(report)}
    assert all(step["question"] for step in report["steps"])


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_stepwise_solves_each_part_within_its_share(way: str) -> None:
    report, seen = answered(way, plan_from=1, execution="stepwise", budget=BUDGET)
    assert_accounts(report, seen)
    assert_planned(report)
    assert report["budget"] == BUDGET
    assert report["usage"]["by_node"]["solve"]["output_tokens"] <= BUDGET
    for step in report["steps"]:
        assert step["tokens"] is not None
        assert step["cap"] is not None
        assert step["tokens"] <= step["cap"]
        assert step["finish"] in ("stop", "length", "forced")


def test_a_single_pass_keeps_to_the_whole_budget() -> None:
    report, seen = answered(plan_from=1, execution="single_pass", budget=BUDGET)
    assert_accounts(report, seen)
    assert_planned(report)
    assert report["usage"]["by_node"]["answer"]["output_tokens"] <= BUDGET
    assert sum(step["budget"] or 0 for step in report["steps"]) == BUDGET


def test_plan_and_grades_in_one_call() -> None:
    report, seen = answered(
        plan_from=1, planning="fused", execution="single_pass", enforcement="cap", budget=BUDGET
    )
    assert_accounts(report, seen)
    assert_planned(report)
    assert "plan" in report["usage"]["by_node"]
    assert "estimate" not in report["usage"]["by_node"]


def test_vanilla_is_one_call_within_the_cutoff() -> None:
    report, seen = answered(method="vanilla", cutoff=48)
    assert_accounts(report, seen)
    assert report["usage"]["calls"] == 1
    assert seen <= 48 == report["ceiling"]


def test_certaindex_goes_on_from_its_own_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told nothing of its pieces, the model writes what it would have written in one."""
    monkeypatch.setattr(certaindex, "PROBE_EVERY", 16)
    monkeypatch.setattr(certaindex, "PROBES_AGREE", 20)
    whole, _ = answered(method="vanilla", cutoff=64)
    report, seen = answered(method="certaindex", cutoff=64)
    assert_accounts(report, seen)
    assert report["usage"]["by_node"]["answer"]["output_tokens"] <= 64
    assert report["usage"]["by_node"]["probe"]["calls"] >= 2
    pieces, once = report["answer"].split(), whole["answer"].split()
    assert pieces[:8] == once[:8]  # a piece may split a word into other tokens
    assert len(pieces) == pytest.approx(len(once), abs=12)


def test_samples_of_one_model_are_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive_consistency, "SAMPLES", 2)
    report, seen = answered(method="adaptive_consistency", cutoff=32)
    assert_accounts(report, seen)
    assert report["usage"]["calls"] == 2
    assert seen <= 64 == report["ceiling"]
