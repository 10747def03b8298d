"""What each request to a planner says: inputs, form, schema, examples."""

from __future__ import annotations

from typing import Any

import pytest

from pb_graph.planner.parsing import Difficulty, Level
from pb_graph.planner.planner import Planner
from pb_graph.planner.requests import PlannerRequest, estimate_request, level_request, plan_request
from pb_graph.planner.signatures import PlannerAdapter
from pb_graph.settings import Settings
from pb_graph.types import Query, SubQuestion

PLAN = [
    SubQuestion(index=i, question=q, hint="", depends_on=[], level=None, credit=None)
    for i, q in enumerate(("First?", "Second?"))
]


def query(level: int | None = None, **fields: Any) -> Query:  # noqa: ANN401
    plain: Query = {
        "question": "What is 6 * 7?",
        "reference": None,
        "instruction": None,
        "answer_format": None,
        "domain": "mathematics",
        "level": level,
    }
    return plain | fields  # type: ignore[return-value]


def all_requests(about: Query, settings: Settings | None = None) -> list[PlannerRequest[Any]]:
    settings = settings or Settings()
    return [
        plan_request(about, settings),
        plan_request(about, settings, graded=True),
        estimate_request(about, PLAN, settings),
        level_request(about, settings),
    ]


def prompt(request: PlannerRequest[Any]) -> list[str]:
    signature = getattr(Planner(), request.predictor).signature
    adapter = PlannerAdapter(request.form, request.examples)
    return [message["content"] for message in adapter.format(signature, [], request.inputs)]


@pytest.mark.parametrize("request_", all_requests(query(2)), ids=lambda made: made.predictor)
def test_a_prompt_is_short_and_its_example_can_be_read_as_a_reply_is(
    request_: PlannerRequest[Any],
) -> None:
    signature = getattr(Planner(), request_.predictor).signature
    assert sum(map(len, prompt(request_))) < 4 * 450  # about four characters a token
    for example in request_.examples:
        assert PlannerAdapter(request_.form).parse(signature, example.reply)


@pytest.mark.parametrize("graded", [False, True])
def test_a_plan_is_asked_for_with_the_level_where_it_is_known(graded: bool) -> None:
    example, asked = prompt(plan_request(query(3), Settings(), graded=graded))[1::2]
    assert "level 1 of 5" in example
    assert "level 3 of 5" in asked
    assert "of 5" not in "".join(prompt(plan_request(query(), Settings(), graded=graded))[1::2])


def test_what_is_known_is_not_asked_for() -> None:
    schemas = [request.schema or {} for request in all_requests(query(3))]
    assert [set(schema.get("properties", ())) for schema in schemas] == [
        {"steps"},
        {"steps"},
        {"levels", "credits"},
        set(),
    ]
    estimate = estimate_request(query(), [], Settings())
    assert set((estimate.schema or {})["properties"]) == {"level"}
    assert Difficulty.read(estimate.examples[0].reply) == Difficulty(level=1)


def test_a_plan_has_no_more_steps_than_the_settings_say() -> None:
    for request in all_requests(query(), Settings(max_steps=3))[:2]:
        assert "at most 3 steps" in request.form
        assert (request.schema or {})["properties"]["steps"]["maxItems"] == 3


def test_the_level_alone_is_asked_for_in_two_tokens_after_problems_of_known_level() -> None:
    request = level_request(query(), Settings())
    assert (request.cap, request.schema) == (2, None)
    assert [Level.read(example.reply).level for example in request.examples] == [3, 1, 5, 2, 4]
    assert (request.inputs["domain"], request.inputs["examples"]) == ("", "")
    assert level_request(query(domain="chemistry"), Settings()).inputs["domain"] == "chemistry"
    own = Settings(level_examples="Level 2: Old\nproblem\nLevel 1: Older")
    assert level_request(query(), own).examples == (
        ({"problem": "Older"}, "L1"),
        ({"problem": "Old\nproblem"}, "L2"),
    )


@pytest.mark.parametrize("told", ["", "Sums are easy.", "Easy ones:\nLevel 1: What is 2 + 2?"])
def test_levels_in_words_of_the_user_stay_as_they_are(told: str) -> None:
    request = level_request(query(), Settings(level_examples=told))
    assert request.inputs["examples"] == told
    assert len(request.examples) == 1


def test_the_conversation_and_images_belong_to_the_problem() -> None:
    about = query(conversation="It was 5 before.", media=[{"type": "image", "url": "x"}])
    problem = plan_request(about, Settings()).inputs["problem"]
    assert problem.startswith("It was 5 before.\n\n")
    assert "1 image(s)" in problem


def test_the_default_domain_is_not_told() -> None:
    assert "Field:" in prompt(plan_request(query(), Settings()))[-1]
    about = query(domain=Settings().domain)
    assert "Field:" not in prompt(plan_request(about, Settings()))[-1]


def test_a_repair_carries_the_complaint() -> None:
    request = plan_request(query(), Settings())
    assert prompt(request.corrected("NO STEPS FOUND"))[-1].endswith("NO STEPS FOUND")
