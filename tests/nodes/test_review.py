"""A review pauses the run with the plan, and goes on with what a human makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import ValidationError

from pb_graph import Context, InputError, Settings
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import CHAIN, QUESTION, Way, checked, graph_of, run

STEPS = [{"question": "How many threes?"}, {"question": "How many pens?"}]
THREAD = {"configurable": {"thread_id": "1"}}


class Review:
    """A run that waits for its reviewer."""

    def __init__(
        self,
        way: Way = "invoke",
        **settings: Any,  # noqa: ANN401
    ) -> None:
        self.way = way
        self.model = ScriptedChat(plan=CHAIN)
        self.graph = graph_of(
            self.model, checkpointer=InMemorySaver(), review_plan=True, **settings
        )
        self.out = run(self.graph, QUESTION, way, config=THREAD)

    @property
    def asked(self) -> dict[str, Any]:
        (interrupt,) = self.out["__interrupt__"]
        value: dict[str, Any] = interrupt.value
        return value

    def answer(self, answer: object) -> None:
        self.out = run(self.graph, Command(resume=answer), self.way, config=THREAD)


def questions(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    return [step["question"] for step in steps]


@pytest.mark.parametrize("way", get_args(Way))
def test_a_run_waits_with_plan_and_budgets_and_goes_on_when_they_are_accepted(way: Way) -> None:
    review = Review(way, planning="two_call", execution="single_pass", budget=400)
    asked = review.asked
    planned = review.model.output_tokens
    assert review.model.solving() == []
    assert questions(asked["plan"]) == list(CHAIN)
    assert (asked["level"], asked["budget"], asked["limit"]) == (3, 400, 400 + planned)
    review.answer(True)
    report = checked(review.out["report"])
    assert questions(report["steps"]) == list(CHAIN)
    assert [step["share"] for step in report["steps"]] == asked["shares"]
    assert report["limit"] == asked["limit"]
    assert report["usage"]["output_tokens"] == review.model.output_tokens
    assert report["usage"]["by_node"]["plan"]["calls"] == 1
    json.dumps(asked)


@pytest.mark.parametrize("planning", ["two_call", "fused"])
def test_an_edited_plan_is_budgeted_anew_without_another_estimate(planning: str) -> None:
    review = Review(planning=planning, execution="stepwise", schedule="weighted", budget=400)
    planned = len(review.model.calls)
    first, second, *_ = review.asked["plan"]
    other = {"question": "Else?", "credit": 25}
    alone = other | {"question": "And?", "depends_on": [0, 0], "credit": 50}
    review.answer({"plan": [first, second | {"credit": 50}, other, alone]})
    report = checked(review.out["report"])
    assert questions(report["steps"]) == ["First?", "Second?", "Else?", "And?"]
    assert [step["credit"] for step in report["steps"]] == [25, 50, 25, 50]
    assert [step["depends_on"] for step in report["steps"]] == [[], [0], [1], [0]]
    assert len(review.model.calls) - planned == len(review.model.solving())
    assert report["budget"] == 400
    assert review.model.output_tokens == report["usage"]["output_tokens"] <= report["limit"]


def test_the_reviewers_budget_is_the_budget_of_the_run_and_its_limit() -> None:
    review = Review(schedule="uniform", execution="single_pass", budget=400)
    planned = review.model.output_tokens
    review.answer({"budget": 800})
    report = review.out["report"]
    assert [step["share"] for step in report["steps"]] == [200] * 4
    assert (report["budget"], report["limit"]) == (800, 800 + planned)


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        ("looks good", "Input should be True"),
        ({"plan": [{"hint": "mind"}]}, "question\n  Field required"),
        ({"plan": STEPS, "bugdet": 10}, "bugdet\n  Extra inputs"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_unusable_edit_is_refused_with_the_reason_and_may_be_corrected(
    edit: object, complaint: str
) -> None:
    review = Review()
    with pytest.raises(ValidationError, match=complaint):
        review.answer(edit)
    review.answer({"plan": [{"question": "All of it?"}]})
    assert questions(review.out["report"]["steps"]) == ["All of it?"]


def test_a_resumed_run_keeps_the_settings_it_began_with() -> None:
    model = ScriptedChat(plan=CHAIN)
    graph = graph_of(model, checkpointer=InMemorySaver(), review_plan=True, budget=100)
    context = Context(settings=Settings(budget=555))
    run(graph, QUESTION, config=THREAD, context=context)
    out = run(graph, Command(resume=True), config=THREAD)
    assert out["report"]["budget"] == 555


def test_without_a_checkpointer_it_is_refused_before_anything_is_paid() -> None:
    model = ScriptedChat()
    with pytest.raises(InputError, match=r"needs a checkpointer.*checkpointer="):
        run(graph_of(model, review_plan=True))
    assert not model.calls
