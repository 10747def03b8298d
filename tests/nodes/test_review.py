"""A review pauses the run with the plan, and goes on with what a human makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from pb_graph import Budget, Context, InputError, Settings
from pb_graph.nodes.plan_edit import PlanEdit, apply_edits
from pb_graph.types import SubQuestion
from tests.support.chat_model import HTTPError, ScriptedChat
from tests.support.graphs import CHAIN, QUESTION, Way, checked, graph_of, run

THREAD = {"configurable": {"thread_id": "1"}}


class Review:
    """A run that waits for its reviewer."""

    def __init__(
        self,
        way: Way = "invoke",
        model: ScriptedChat | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> None:
        self.way = way
        self.model = model or ScriptedChat(plan=CHAIN)
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


def questions(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    return [step["question"] for step in steps]


def needs(report: Mapping[str, Any]) -> list[list[int]]:
    return [step["depends_on"] for step in report["steps"]]


@pytest.mark.parametrize("way", get_args(Way))
def test_a_run_waits_with_plan_and_budgets_and_goes_on_when_they_are_accepted(way: Way) -> None:
    review = Review(way, budget=400, rollover=False)
    asked = review.asked
    planned = review.model.output_tokens
    assert review.model.solving() == []
    assert questions(asked["plan"]) == list(CHAIN)
    assert (asked["level"], asked["budget"], asked["ceiling"]) == (3, 400, 400 + planned)
    review.answer(True)
    report = checked(review.out["report"])
    assert questions(report["steps"]) == list(CHAIN)
    assert [step["budget"] for step in report["steps"]] == asked["budgets"]
    assert report["ceiling"] == asked["ceiling"]
    assert report["usage"]["output_tokens"] == review.model.output_tokens
    assert report["usage"]["by_node"]["plan"]["calls"] == 1
    json.dumps(asked)


@pytest.mark.parametrize("execution", ["stepwise", "single_pass"])
@pytest.mark.parametrize("planning", ["two_call", "fused"])
def test_an_edited_plan_is_budgeted_anew_without_another_estimate(
    planning: str, execution: str
) -> None:
    review = Review(planning=planning, execution=execution, schedule="weighted", budget=400)
    planned = len(review.model.calls)
    review.answer({"plan": [0, {"index": 1, "credit": 50}, "Anything else?"]})
    report = checked(review.out["report"])
    assert questions(report["steps"]) == ["First?", "Second?", "Anything else?"]
    assert [step["credit"] for step in report["steps"]] == [22.22, 44.44, 33.33]
    assert needs(report) == [[], [0], [1]]
    assert len(review.model.calls) - planned == len(review.model.solving())
    assert report["budget"] == 400
    assert review.model.output_tokens == report["usage"]["output_tokens"] <= report["ceiling"]


def test_the_reviewers_total_is_the_budget_of_the_run_and_its_ceiling() -> None:
    review = Review(schedule="uniform", rollover=False, budget=400)
    planned = review.model.output_tokens
    review.answer({"budget": 800})
    report = review.out["report"]
    assert [step["budget"] for step in report["steps"]] == [200] * 4
    assert (report["budget"], report["ceiling"]) == (800, 800 + planned)


def test_a_shared_budget_that_has_less_is_spoken_of_once() -> None:
    review = Review(shared_budget=Budget(300), budget=400)
    (note,) = review.asked["warnings"]
    review.answer({"plan": [0, 1]})
    assert review.out["report"]["warnings"] == [note]


def test_dropped_sub_questions_hand_their_needs_down() -> None:
    review = Review()
    review.answer({"plan": [0, 3]})
    report = review.out["report"]
    assert questions(report["steps"]) == ["First?", "Fourth?"]
    assert needs(report) == [[], [0]]
    assert [step["credit"] for step in report["steps"]] == [50, 50]


def test_reordered_sub_questions_need_no_later_ones() -> None:
    review = Review()
    review.answer({"plan": [1, 0, 3, 2]})
    report = review.out["report"]
    assert questions(report["steps"]) == ["Second?", "First?", "Fourth?", "Third?"]
    assert needs(report) == [[], [], [], [0]]


def test_a_plan_sent_back_as_it_was_shown_is_the_same_plan() -> None:
    review = Review(schedule="weighted")
    shown = review.asked["plan"]
    review.answer({"plan": shown})
    assert [
        {name: step[name] for name in before}
        for before, step in zip(shown, review.out["report"]["steps"], strict=True)
    ] == shown


def test_a_shown_plan_with_one_taken_out_is_sent_back_as_it_is() -> None:
    review = Review()
    first, second, _, fourth = review.asked["plan"]
    review.answer({"plan": [first, second | {"hint": "Mind the bag."}, fourth]})
    report = review.out["report"]
    assert needs(report) == [[], [0], [1]]
    assert report["steps"][1]["hint"] == "Mind the bag."


def test_a_plan_of_ones_own_names_its_needs_by_place_or_by_index() -> None:
    own = [
        "How many threes?",
        {"question": "Is a bag needed?", "hint": "no", "depends_on": []},
        {"question": "How many pens?", "depends_on": [1, 0, 0]},
    ]
    named = [
        {"question": "How many threes?", "index": 7},
        {"index": 8, "question": "Is a bag needed?", "depends_on": []},
        {"question": "How many pens?", "depends_on": [8, 7]},
    ]
    for plan in (own, named):
        review = Review()
        review.answer({"plan": plan})
        assert needs(review.out["report"]) == [[], [], [0, 1]]
        assert [step["credit"] for step in review.out["report"]["steps"]] == [None] * 3


def test_a_list_without_an_index_names_its_needs_by_place_also_of_what_was_planned() -> None:
    review = Review()
    kept = {"question": "Third?", "depends_on": [1]}  # as it was shown, where 1 was the second
    review.answer({"plan": [{"question": "Second?", "depends_on": []}, "First?", kept]})
    assert needs(review.out["report"]) == [[], [], [1]]


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        ("looks good", "expected true, or {'plan': [...]}"),
        (False, "expected true"),
        ({"plan": None}, "expected true"),
        ({"plan": []}, "at least 1"),
        ({"plan": "First?"}, "plan: Input should be a valid list"),
        ({"plan": [" "]}, "plan.0.question: String should have at least 1 character"),
        ({"plan": [{"question": ""}]}, "question"),
        ({"plan": [{"question": "a" * 2001}]}, "at most 2000 characters"),
        ({"plan": [{"hint": "mind"}]}, "a new one needs a 'question'"),
        ({"plan": [{"index": 0, "credit": -1}]}, "greater than or equal to 0"),
        ({"plan": [{"index": 0, "level": 6}]}, "less than or equal to 5"),
        ({"plan": [{"index": 0, "tokens": 6}]}, "tokens: Extra inputs"),
        ({"plan": [4]}, "there is no sub-question 4"),
        ({"plan": [1, 1]}, "sub-question 1 is there twice"),
        ({"plan": [1, "Second?"]}, "sub-question 1 is there twice"),
        ({"plan": [{"index": 9, "question": "a"}, {"index": 9, "question": "b"}]}, "same index"),
        ({"plan": ["a"] * 6}, "6 sub-questions; Settings.max_steps allows 5"),
        ({"plan": ["a", {"question": "b", "depends_on": [1]}]}, "only earlier ones"),
        ({"plan": [0, {"index": 3, "depends_on": [1]}]}, "only earlier ones"),
        ({"plan": [1, {"question": "b", "depends_on": [0]}]}, "only earlier ones"),  # 0 is dropped
        ({"plan": ["a"], "bugdet": 10}, "bugdet: Extra inputs"),
        ({"budget": 0}, "greater than or equal to 1"),
        ({"budget": "many"}, "budget: Input should be a valid integer"),
        ({"budget": True}, "budget: Input should be a valid integer"),
        ({"budget": 3}, "3 tokens cannot pay 4 sub-questions"),
        ({"budget": 1, "plan": [0, 1]}, "1 tokens cannot pay 2 sub-questions"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_unusable_edit_is_asked_for_again_with_the_reason(edit: object, complaint: str) -> None:
    review = Review()
    review.answer(edit)
    assert complaint in review.asked["error"]
    review.answer({"plan": ["All of it?"]})
    assert questions(review.out["report"]["steps"]) == ["All of it?"]


@pytest.mark.parametrize("total", [None, 300])
def test_methods_that_give_no_shares_are_reviewed_as_well(total: int | None) -> None:
    review = Review(method="planned_vanilla", budget=total)
    assert (review.asked["budget"], review.asked["budgets"]) == (total, [])
    review.answer({"budget": 500, "plan": ["All of it?"]})
    if total is None:
        assert "planned_vanilla has no budget to change" in review.asked["error"]
        review.answer({"plan": ["All of it?"]})
    report = checked(review.out["report"])
    assert questions(report["steps"]) == ["All of it?"]
    assert report["budget"] == (total and 500)
    assert review.model.output_tokens <= report["ceiling"]


def test_a_stream_shows_the_edited_plan_and_its_budgets() -> None:
    review = Review(schedule="uniform")
    resumed = Command(resume={"plan": [2], "budget": 90})
    events = list(review.graph.stream(resumed, THREAD, stream_mode="custom"))
    plan, budgets = events[0], events[1]
    assert questions(plan["steps"]) == ["Third?"]
    assert (budgets["budget"], budgets["shares"]) == (90, [90])


@hypothesis_settings(max_examples=60)
@given(st.data())
def test_whatever_is_kept_and_added_makes_a_plan_that_can_be_solved(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    old = [
        SubQuestion(
            index=index,
            question=f"Part {index}?",
            hint="",
            depends_on=sorted(
                data.draw(st.sets(st.integers(0, index - 1)) if index else st.just(set()))
            ),
            level=data.draw(st.none() | st.integers(1, 5)),
            credit=data.draw(st.none() | st.floats(0, 100)),
        )
        for index in range(count)
    ]
    kept = data.draw(st.lists(st.sampled_from(range(count)), unique=True))
    new = [f"New {n}?" for n in range(data.draw(st.integers(0 if kept else 1, 3)))]
    sent = data.draw(st.permutations([*kept, *new]))
    steps = apply_edits(PlanEdit.model_validate({"plan": sent}).plan or [], old)
    assert [step["index"] for step in steps] == list(range(len(sent)))
    assert all(needed < step["index"] for step in steps for needed in step["depends_on"])
    known = [step["credit"] for step in steps if step["credit"] is not None]
    assert not known or (len(known) == len(steps) and abs(sum(known) - 100) < 0.1)


def test_a_resumed_run_keeps_the_settings_it_began_with() -> None:
    model = ScriptedChat(plan=CHAIN)
    graph = graph_of(model, checkpointer=InMemorySaver(), review_plan=True, budget=100)
    context = Context(settings=Settings(budget=555))
    run(graph, QUESTION, config=THREAD, context=context)
    out = run(graph, Command(resume=True), config=THREAD)
    assert out["report"]["budget"] == 555


@pytest.mark.parametrize("execution", ["single_pass", "stepwise"])
def test_a_resumed_run_keeps_the_models_that_it_began_with(
    execution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {"fake:solver": ScriptedChat(), "fake:planner": ScriptedChat()}
    monkeypatch.setattr("pb_graph.run.models.resolve", lambda name, _: made[name])
    model = ScriptedChat()
    graph = graph_of(model, checkpointer=InMemorySaver(), review_plan=True, execution=execution)
    context = Context(model="fake:solver", planner="fake:planner")
    run(graph, QUESTION, config=THREAD, context=context)
    run(graph, Command(resume=True), config=THREAD)
    assert made["fake:solver"].solving()
    assert not model.calls
    run(graph, QUESTION, config=THREAD)  # the next question has the graph's own again
    assert model.calls


def test_a_resumed_run_asks_for_the_model_that_no_checkpoint_can_hold() -> None:
    model, own = ScriptedChat(), ScriptedChat()
    graph = graph_of(model, checkpointer=InMemorySaver(), review_plan=True)
    run(graph, QUESTION, config=THREAD, context=Context(model=own))
    with pytest.raises(InputError, match=r"a model of its own.*Context\(model="):
        run(graph, Command(resume=True), config=THREAD)
    out = run(graph, Command(resume=True), config=THREAD, context=Context(model=own))
    assert out["answer"] == "Final answer: 42"
    assert own.solving()
    assert not model.calls


def test_a_model_that_was_out_of_reach_is_asked_again_after_a_review() -> None:
    gone = ScriptedChat(planner=HTTPError(404))
    review = Review(model=gone)
    (step,), warnings = review.asked["plan"], review.asked["warnings"]
    assert step["question"] == "Solve the question as a whole."
    assert any("HTTP 404" in warning for warning in warnings)
    review.answer({"plan": ["How many threes?", "How many pens?"]})
    assert review.out["answer"] == "Final answer: 42"


def test_a_new_question_may_be_asked_instead_of_reviewing() -> None:
    review = Review()
    review.out = run(review.graph, {"question": "Another one?"}, config=THREAD)
    assert review.asked["plan"]
    review.answer(True)
    assert review.out["report"]["usage"]["by_node"]["plan"]["calls"] == 1


def test_a_run_without_a_plan_is_not_reviewed() -> None:
    assert Review(method="global_budget").out["answer"] == "Final answer: 42"


@pytest.mark.parametrize("way", get_args(Way))
def test_without_a_checkpointer_it_is_refused_before_anything_is_paid(way: Way) -> None:
    model = ScriptedChat()
    with pytest.raises(InputError, match=r"goes on from a checkpoint.*checkpointer="):
        run(graph_of(model, review_plan=True), way=way)
    assert not model.calls
