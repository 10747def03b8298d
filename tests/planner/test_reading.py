"""Plans and levels are read in all the forms in which models write them, and nothing else is."""
# ruff: noqa: RUF001 -- marks and digits of other scripts

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.planner.plans import Plan
from pb_graph.planner.reading import find_level

A, B = "How many eggs a day?", "How many eggs in 5 days?"
JSON_PLAN = json.dumps({"steps": [A, B]})

IN_JSON = (
    '["A", "B"]',
    '[{"question": "A"}, {"question": "B"}]',
    '{"1": "A", "2": "B"}',
    '{"Step 1": {"question": "A"}, "Step 2": {"question": "B"}}',
    '{"steps": {"1": "A", "2": "B"}}',
    '{"steps": {"eggs": "A", "days": "B"}}',
    '{"steps": {"A": "multiply", "B": "multiply"}}',
    '{"steps": [{"1": "A"}, {"2": "B"}]}',
    '{"steps": [["A", "multiply"], ["B", "multiply"]]}',
    '{"steps": [{"step": 1, "description": "A"}, {"step": 2, "description": "B"}]}',
    '{"steps": [3, null, "A", {"question": 7}, "", "B"]}',
    '{"steps": ["Step 1: A", "Sub-question 2: B"]}',
    '{"steps": "1. A\\n2. B"}',
    '{"steps": "[\\"A\\", \\"B\\"]"}',
    '{"Sub-question 1": "A", "Hint 1": "multiply", "Sub-question 2": "B", "Hint 2": "add"}',
    '{"output": ["A", "B"]}',
    '{"plan": {"steps": ["A", "B"]}}',
    '{"given": ["12 hens", "3 eggs"], "steps": ["A", "B"]}',
    '{"missing": [], "result": {"sub_questions": ["A", "B"]}}',
    '{"thoughts": ["easy"], "plan": ["A", "B"]}',
    '[{"id": 0, "task": "A", "depends_on": []}, {"id": 1, "task": "B", "depends_on": [0]}]',
    "{'steps': ['A', 'B',]}",
    "{steps: ['A', 'B']}",
    "{“steps”: [“A”, “B”]}",
    '{"steps": ["A", "B',
    '{"question": "A"}\n{"question": "B"}',
    'Given: ["12 hens", "3 eggs"]\nSteps: ["A", "B"]',
    'steps = ["A", "B"]',
)
IN_LINES = (
    *("1. A\n2. B", "1) A\n2) B", "(1) A\n(2) B", "[1] A\n[2] B", "1: A\n2: B", "1 - A\n2 - B"),
    *(
        "1、A\n2、B",
        "①A\n②B",
        "一、A\n二、B",
        "１．A\n２．B",
        "（1）A\n（2）B",
        "١. A\n٢. B",
        "1️⃣ A\n2️⃣ B",
    ),
    *(
        "第一步：A\n第二步：B",
        "步骤1：A\n步骤2：B",
        "Schritt 1: A\nSchritt 2: B",
        "Шаг 1: A\nШаг 2: B",
    ),
    *("a) A\nb) B", "I. A\nII. B", "Q1: A\nQ2: B", "1\\. A\n2\\. B", "**1.** A\n**2.** B"),
    *("- A\n- B", "* A\n* B", "• A\n• B", "- [ ] A\n- [ ] B", "> 1. A\n> 2. B", "👉 A\n👉 B"),
    *(
        "**Step 1**\nA\n\n**Step 2**\nB",
        "### Step 1:\nA\n### Step 2:\nB",
        "**Step 1:** A\n**Step 2**: B",
    ),
    *("**Step 1** A\n**Step 2** B", "Step 1\nQuestion: A\n\nStep 2\nQuestion: B"),
    *("1. A 2. B", "A\nB", "Step one: A\nStep two: B", "First: A\nSecond: B", "⑴ A\n⑵ B"),
    '1. "A"\n2. "B";',
    "1. A\n   1. count\n   2. multiply\n2. B\n   - add",
    "1. A\n- count\n- multiply\n2. B",
    "1. A\n1.1 count\n1.2 multiply\n2. B",
    "1. A\na) count\nb) multiply\n2. B",
    "1. A\nHint: multiply.\n\n2. B\nHint: multiply.",
    "1. A Hint: multiply.\n2. B (hint: multiply)",
    "1. **Question:** A\n   **Hint:** multiply\n2. **Question:** B\n   **Hint:** add",
    "- question: A\n  hint: multiply\n- question: B\n  hint: add",
    "| # | Sub-question | Hint |\n|---|---|---|\n| 1 | A | multiply |\n| 2 | B | multiply |",
    "# | Sub-question\n---|---\n1 | A\n2 | B",
    "<step>A</step>\n<step>B</step>",
    "Given:\n- 12 hens\n- 3 eggs\n\nSteps:\n- A\n- B",
    "Given:\n1. 12 hens\n2. 3 eggs\n\n1. A\n2. B",
    "Let us see, with x^{2}:\n  1. A\n\n  2. B\nThat is all.",
)


def read(text: str) -> list[str]:
    try:
        return [step.question for step in Plan.read(text).steps]
    except ValueError:
        return []


@pytest.mark.parametrize("form", IN_JSON + IN_LINES)
def test_a_plan_is_read_in_any_form(form: str) -> None:
    assert read(form.replace("A", A).replace("B", B)) == [A, B]


@pytest.mark.parametrize(
    "form",
    [
        "[[ ## plan ## ]]\n{}\n\n[[ ## completed ## ]]",
        "[Note] two steps.\n{}",
        "[1] is the total.\n{}",
        'Form: {{"steps": ["sub-question | hint"]}}\n{}',
        '{{"ok": true}}\n```json\n{}\n```',
        '{{"steps": ["A draft?", "Another?"]}}\nBetter:\n{}',
        '<think>{{"steps": ["A draft?"]}}</think>{}',
        "[THINK]\n1. A draft?\n[/THINK]\n{}",
        "1. A draft?\n</think>\n{}",
    ],
)
@pytest.mark.parametrize("plan", [JSON_PLAN, f"1. {A}\n2. {B}"])
def test_what_stands_around_a_plan_is_left_out(form: str, plan: str) -> None:
    if form[:3] in {"[1]", '{{"'} and plan != JSON_PLAN:
        return  # the lines in front are lists as well
    assert read(form.format(plan)) == [A, B]


@pytest.mark.parametrize(
    "text",
    [
        '{"given": ["12 hens", "3 eggs"]}',
        'Given: ["12 hens", "3 eggs"]',
        "Given:\n- 12 hens\n- 3 eggs",
        "| Given | Value |\n|---|---|\n| hens | 12 |\n| eggs | 3 |",
        "I can't do that. Reasons: 1. It is unsafe. 2. I may not.",
        "I’m sorry, but I can’t. Here is why:\n1. It is unsafe.\n2. I may not.",
        "Das kann ich nicht planen. Gründe:\n1. Es ist verboten.\n2. Es schadet.",
        '{"error": "refused", "reasons": ["unsafe", "not allowed"]}',
        '{"steps": [{"question": "sub-question | hint", "level": 1, "credit": 1}]}',
        "1. sub-question | hint\n2. ...",
        "[1, 2]",
    ],
)
def test_another_list_is_no_plan(text: str) -> None:
    assert read(text) == []


def test_sub_points_are_part_of_their_point() -> None:
    plan = Plan.read("1. Choose the sights.\n   - museums\n   - parks\n2. Plan the days.")
    assert [(step.question, step.hint) for step in plan.steps] == [
        ("Choose the sights.", "museums; parks"),
        ("Plan the days.", ""),
    ]


def test_lists_of_hints_and_grades_beside_the_steps_belong_to_them() -> None:
    text = '{"steps": ["A?", "B?"], "hints": ["x", "y"], "levels": [1, 2], "credits": [40, 60]}'
    steps = Plan.read(text).steps
    assert [(s.hint, s.level, s.credit) for s in steps] == [("x", 1, 40), ("y", 2, 60)]


def test_steps_that_are_counted_from_0_are_counted_from_1() -> None:
    items = [{"task": "A?", "depends_on": []}, {"task": "B?", "depends_on": [0]}]
    assert [step.after for step in Plan.read(json.dumps(items)).steps] == [[], [1]]


WORDS = st.text(st.characters(codec="utf-8", categories=["Ll", "Lu"]), min_size=2, max_size=8)
ASKED = st.lists(WORDS, min_size=2, max_size=4).map(lambda words: f"What is {' '.join(words)}?")


@given(st.lists(ASKED, min_size=2, max_size=5, unique_by=str.casefold), st.sampled_from("-*•1)."))
def test_any_questions_are_read_back_as_they_were_listed(asked: list[str], mark: str) -> None:
    numbered = [f"{n}. {text}" for n, text in enumerate(asked, 1)]
    bulleted = [f"{mark} {text}" for text in asked] if mark in "-*•" else numbered
    for text in ("\n".join(bulleted), "\n\n".join(numbered), json.dumps({"steps": asked})):
        assert read(text) == asked


PIECES = st.sampled_from(
    [
        *'{}[]":,|\\ \n-1.9e*#①一a)',
        "```",
        "steps",
        "level",
        "NaN",
        "after",
        "Hint:",
        "|---|---|",
        "<step>",
    ]
)


@given(st.text() | st.lists(PIECES, max_size=60).map("".join))
def test_reading_gives_usable_values_or_a_value_error(text: str) -> None:
    for question in read(text):
        assert any(character.isalnum() for character in question)
    assert find_level(text) in {None, 1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    "hostile",
    [
        "[" * 9_999,
        '{"a":' * 9_999,
        "1. " * 90_000,
        "- a\n" * 90_000,
        "<think>" * 90_000,
        "level " * 90_000,
    ],
)
def test_a_long_reply_is_read(hostile: str) -> None:
    read(hostile)
    find_level(hostile)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "4",
            "L4",
            " l4.",
            "Level: 4",
            '{"level": 4}',
            "**4**",
            "4️⃣",
            "４",
            "٤",
            "④",
            "四",
            "L4L4L4",
        ),
        *(
            "four",
            "Four.",
            "Level four",
            "Level IV",
            "Level-4",
            "Lvl4",
            "lvl. 4",
            "4/5",
            "4 out of 5",
        ),
        *("3.5", "3½", "3,5", "难度：4", "Stufe 4", "Niveau 4", "level is a solid 4", "It's a 4."),
        "On a scale of 1 to 5, this is level 4.",
        "On a scale of one to five, this is a four.",
        "It is 4 on a scale from 1 (easiest) to 5 (hardest).",
        "It has 2 unknowns and 3 equations, so level 4.",
        "Step 1: read. Level: 4",
        "Level 1 is too easy, so level 4",
        "Level 4, not level 5.",
        '{"reason": "needs 2 steps", "level": "L4"}',
        "<think>L1? It has 2 steps.</think>\nL4",
    ],
)
def test_the_level_is_the_number_that_is_called_so(text: str) -> None:
    assert find_level(text) == 4


@pytest.mark.parametrize(
    "text", ["", "L6", "12", "-1", "0.5", "hard", "7/10", "3/4", "It has 2 of 3."]
)
def test_a_reply_without_a_level_has_none(text: str) -> None:
    assert find_level(text) is None
