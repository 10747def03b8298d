"""A review pauses the run with the plan, and goes on with what a human makes of it."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from pb_graph import Context, Settings
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import CHAIN, QUESTION, Way, checked, graph_of, run

THREAD = {"configurable": {"thread_id": "1"}}


class Review:
    """A run that waits for its reviewer."""

    def __init__(self, way: Way = "invoke", **settings: Any) -> None:  # noqa: ANN401
        self.way = way
        self.model = ScriptedChat(plan=CHAIN)
        chosen = {"review_plan": True, "max_steps": 5, **settings}
        self.graph = graph_of(self.model, checkpointer=InMemorySaver(), **chosen)
        self.out = run(self.graph, QUESTION, way, config=THREAD)

    @property
    def asked(self) -> dict[str, Any]:
        (interrupt,) = self.out["__interrupt__"]
        value: dict[str, Any] = interrupt.value
        return value

    def answer(self, answer: object) -> None:
        self.out = run(self.graph, Command(resume=answer), self.way, config=THREAD)


@pytest.mark.parametrize("way", get_args(Way))
def test_a_run_waits_with_the_plan_and_goes_on_when_it_is_accepted(way: Way) -> None:
    review = Review(way)
    assert [step["question"] for step in review.asked["plan"]] == list(CHAIN)
    assert review.model.solving() == []
    review.answer(True)
    report = checked(review.out["report"])
    assert [step["question"] for step in report["steps"]] == list(CHAIN)
    assert report["usage"]["output_tokens"] == review.model.output_tokens
    assert report["usage"]["by_node"]["plan"]["calls"] == 1


@pytest.mark.parametrize("planning", ["two_call", "fused"])
def test_an_edited_plan_is_graded_and_solved(planning: str) -> None:
    review = Review(planning=planning, schedule="weighted")
    review.answer(
        {
            "plan": [
                "How many threes?",
                {"question": "Is a bag needed?", "hint": "no", "depends_on": []},
                {"question": "How many pens?", "depends_on": [1, 0, 0]},
            ]
        }
    )
    report = checked(review.out["report"])
    assert report["steps"][0]["question"] == "How many threes?"
    assert [step["depends_on"] for step in report["steps"]] == [[], [], [0, 1]]
    assert all(step["credit"] for step in report["steps"])
    assert report["usage"]["output_tokens"] == review.model.output_tokens


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        ("looks good", "expected true or {'plan': [...]}, not 'looks good'"),
        (False, "expected true"),
        ({"plan": []}, "at least 1"),
        ({"plan": [""]}, "question"),
        ({"plan": [{"question": ""}]}, "question"),
        ({"plan": ["a"] * 6}, "6 sub-questions; Settings.max_steps allows 5"),
        ({"plan": ["a", {"question": "b", "depends_on": [1]}]}, "only earlier ones"),
        ({"plan": ["a"], "budget": 10}, "budget"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_unusable_edit_is_asked_for_again_with_the_reason(edit: object, complaint: str) -> None:
    review = Review()
    review.answer(edit)
    assert complaint in review.asked["error"]
    review.answer({"plan": ["All of it?"]})
    assert [step["question"] for step in review.out["report"]["steps"]] == ["All of it?"]


def test_a_resumed_run_keeps_the_settings_it_began_with() -> None:
    model = ScriptedChat(plan=CHAIN)
    graph = graph_of(model, checkpointer=InMemorySaver(), review_plan=True, budget=100)
    context = Context(settings=Settings(budget=555))
    run(graph, QUESTION, config=THREAD, context=context)
    out = run(graph, Command(resume=True), config=THREAD)
    assert out["report"]["budget"] == 555


def test_a_new_question_may_be_asked_instead_of_reviewing() -> None:
    review = Review()
    review.out = run(review.graph, {"question": "Another one?"}, config=THREAD)
    assert review.asked["plan"]
    review.answer(True)
    assert review.out["report"]["usage"]["by_node"]["plan"]["calls"] == 1


def test_a_run_without_a_plan_is_not_reviewed() -> None:
    assert Review(method="global_budget").out["answer"] == "Final answer: 42"
