"""The whole package on the smallest real model: a question goes in, a budgeted answer comes out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from langchain_core.callbacks import UsageMetadataCallbackHandler

from pb_graph import NoAnswerError, Settings, build_graph
from pb_graph.errors import WeightsError
from pb_graph.local import server as local
from pb_graph.local import weights
from pb_graph.types import Report
from tests.support.graphs import Way, checked, codes, run

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


def answered(way: Way = "invoke", **settings: Any) -> tuple[Report, int]:  # noqa: ANN401
    """The report of one question, and the completion tokens that LangChain's own counter saw."""
    graph: Any = build_graph(f"local:{NAME}", settings=Settings(**settings))
    counter = UsageMetadataCallbackHandler()
    try:
        report = run(graph, GIVEN, way, config={"callbacks": [counter]})["report"]
    except NoAnswerError as error:
        report = error.report
    seen = sum(usage["output_tokens"] for usage in counter.usage_metadata.values())
    return checked(report), seen


def assert_true(report: Report, seen: int) -> None:
    """The account is the model's own, and the planner's constrained JSON was read."""
    usage = report["usage"]
    assert usage["measured"]
    assert usage["output_tokens"] == seen > 0
    assert seen == sum(part["output_tokens"] for part in usage["by_node"].values())
    assert report["ceiling"] is not None
    assert seen <= report["ceiling"]
    assert report["answer"]
    assert "unreadable_reply" not in codes(report)


@pytest.mark.parametrize("way", get_args(Way))
def test_stepwise_solves_each_part_within_its_share(way: Way) -> None:
    report, seen = answered(way, plan_from=1, execution="stepwise", budget=BUDGET)
    assert_true(report, seen)
    assert report["budget"] == BUDGET
    assert report["usage"]["by_node"]["solve"]["output_tokens"] <= BUDGET
    for step in report["steps"]:
        assert step["question"]
        assert step["tokens"] is not None
        assert step["cap"] is not None
        assert step["tokens"] <= step["cap"]


def test_a_single_pass_after_one_planning_call_keeps_to_the_whole_budget() -> None:
    report, seen = answered(plan_from=1, planning="fused", enforcement="cap", budget=BUDGET)
    assert_true(report, seen)
    parts = report["usage"]["by_node"]
    (solving,) = parts.keys() - {"plan"}  # "solve" if the little model's plan is one step
    assert parts[solving]["output_tokens"] <= BUDGET
    assert sum(step["budget"] or 0 for step in report["steps"]) == BUDGET


def test_vanilla_is_one_call_within_the_cutoff() -> None:
    report, seen = answered(method="vanilla", cutoff=48)
    assert_true(report, seen)
    assert report["usage"]["calls"] == 1
    assert seen <= 48 == report["ceiling"]
