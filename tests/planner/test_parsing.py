"""Replies of planner models: JSON in many spellings, or numbered lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.planner.parsing import (
    MAX_HINT,
    MAX_QUESTION,
    Difficulty,
    GradedPlan,
    Level,
    Plan,
    PlannedStep,
)


def questions(text: str) -> list[str]:
    return [step.question for step in Plan.read(text).steps]


def read_step(item: object) -> PlannedStep:
    (step,) = Plan.read(json.dumps({"steps": [item]})).steps
    return step


@pytest.mark.parametrize(
    "text",
    [
        '{"plan": [{"question": "What is given?"}, {"question": "What follows?"}]}',
        '```json\n{"steps": ["What is given?", "What follows?"]}\n```\nDone.',
        'Sure! Here it is: {"steps": ["What is given?", "What follows?"]} I hope it helps.',
        '{"steps": ["Step 1: What is given?", "Sub-question 2: What follows?"]}',
        "{'steps': ['What is given?', 'What follows?',]}",
        '{"steps": [3, null, "What is given?", {"question": 7}, "", "What follows?"]}',
        '{"steps": ["What is given?", "What follows?',
        "**Step 1:** What is given?\n**Step 2**: What follows?",
        "Let us see, with x^{2}:\n  1. What is given?\n\n  2. What follows?\nThat is all.",
    ],
)
def test_a_plan_is_read_from_json_or_from_numbered_lines(text: str) -> None:
    assert questions(text) == ["What is given?", "What follows?"]


@pytest.mark.parametrize("latex", [r"\frac{1}{2}", r"3 \times 4", r"a \neq b"])
def test_latex_survives_json_whether_or_not_its_backslash_was_doubled(latex: str) -> None:
    bare = f'{{"steps": ["What is {latex}?"]}}'
    doubled = json.dumps({"steps": [f"What is {latex}?"]})
    assert questions(bare) == questions(doubled) == [f"What is {latex}?"]


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("What? | look | after 1, 2", PlannedStep(question="What?", hint="look", after=[1, 2])),
        ("What? | - | after nothing", PlannedStep(question="What?", after=[])),
        ("Is |x - 3| = P(A|B)?", PlannedStep(question="Is |x - 3| = P(A|B)?")),
        ("Case 1: n is even?", PlannedStep(question="Case 1: n is even?")),
        (
            {"question": "Q | h", "after": ["1"], "level": "level 4", "credit": 12},
            PlannedStep(question="Q", hint="h", after=[1], level=4, credit=12),
        ),
    ],
)
def test_a_step_says_its_hint_and_its_needs(text: object, step: PlannedStep) -> None:
    assert read_step(text) == step


def test_long_texts_are_cut() -> None:
    step = read_step(f"{'q' * 900} | {'h' * 900}")
    assert (len(step.question), len(step.hint)) == (MAX_QUESTION, MAX_HINT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"level": 4, "levels": [1, 2], "credits": [30, 70]}',
            Difficulty(level=4, levels=[1, 2], credits=[30, 70]),
        ),
        (
            '{"level": "Level 4", "levels": ["1", "hard"], "credits": ["30 points", true]}',
            Difficulty(level=4, levels=[1, None], credits=[30, None]),
        ),
        ('{"level": NaN, "levels": [Infinity, 2]}', Difficulty(levels=[None, 2])),
        ('{"level": 2, "levels": [1, 3', Difficulty(level=2, levels=[1, 3])),
    ],
)
def test_difficulties_are_read(text: str, expected: Difficulty) -> None:
    assert Difficulty.read(text) == expected


@pytest.mark.parametrize("text", ["3", "L3", " l3.", "Level: 3", '{"level": 3}'])
def test_the_level_alone_is_one_digit(text: str) -> None:
    assert Level.read(text).level == 3


@pytest.mark.parametrize(
    ("kind", "texts", "said"),
    [
        (Plan, ["", '{"steps": []}', "I cannot do that.", "[" * 9999], "no sub-question found"),
        (Difficulty, ["", "{}", "hard", "[]"], "no levels found"),
        (Level, ["", "L6", "12", "-1", "0.5", "hard"], "no level found"),
    ],
)
def test_a_reply_without_the_value_is_an_error_that_says_so(
    kind: type[Plan | Difficulty | Level], texts: list[str], said: str
) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=said):
            kind.read(text)


PIECES = st.sampled_from([*'{}[]":,|\\ \n-1.9e', "```", "steps", "level", "NaN", "after", "Hint:"])


@given(st.text() | st.lists(PIECES, max_size=60).map("".join))
def test_reading_gives_usable_values_or_a_value_error(text: str) -> None:
    try:
        steps = GradedPlan.read(text).steps
    except ValueError:
        return
    for step in steps:
        assert any(character.isalnum() for character in step.question)


STEPS = st.lists(
    st.builds(
        PlannedStep,
        question=st.sampled_from([r"What is \frac{a}{b}?", 'How many "à 3 €"?', "Which {x}?"]),
        hint=st.sampled_from(["", "by counting"]),
        after=st.none() | st.lists(st.integers(1, 20), max_size=4),
    ),
    min_size=1,
    max_size=6,
)


@given(STEPS)
def test_what_a_planner_is_shown_reads_back(steps: list[PlannedStep]) -> None:
    assert Plan.read(Plan(steps=steps).to_text()).steps == steps
    graded = GradedPlan(steps=[step.model_copy(update={"level": 2, "credit": 9}) for step in steps])
    assert GradedPlan.read(graded.to_text()) == graded
    found = Difficulty(level=2, levels=[1, None], credits=[30, 70])
    assert Difficulty.read(found.to_text()) == found
    assert Level.read(Level(level=4).to_text()) == Level(level=4)
