"""Plans and levels are read in all the forms in which models write them, and nothing else is."""
# ruff: noqa: RUF001 -- marks and digits of other scripts

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.planner.plans import Plan, find_level

A, B = "How many eggs a day?", "How many eggs in 5 days?"
JSON_PLAN = json.dumps({"steps": [A, B]})

MARKS = (
    r"1.~2./1)~2)/(1)~(2)/[1]~[2]/1:~2:/1 -~2 -/1\.~2\./**1.**~**2.**/> 1.~> 2./-~-/*~*/•~•/👉~👉"
    "/- [ ]~- [ ]/🐔~📅/1、~2、/①~②/❶~❷/⑴~⑵/一、~二、/（一）~（二）/１．~２．/（1）~（2）"
    "/【1】~【2】/١.~٢./१.~२./1️⃣~2️⃣/第一步：~第二步：/步骤1：~步骤2：/步骤一：~步骤二：/子问题1：~子问题2："
    "/【ステップ1】~【ステップ2】/1단계:~2단계:/a)~b)/I.~II./Q1:~Q2:/Step one:~Step two:"
    r"/Step 1 →~Step 2 →/**Step 1:**~**Step 2**:/**Step 1**~**Step 2**"
    r"/- Step 1:~- Step 2:/First,~Then,/\item~\item"
)
WORDS = (
    "Sub-question Subtask Schritt Étape Paso Passo Stap Krok Adım Langkah Bước Шаг الخطوة चरण שלב"
)
IN_JSON = r"""
["A", "B"]
[{"question": "A"}, {"question": "B"}]
[["A", "multiply"], ["B", "multiply"]]
{"1": "A", "2": "B"}
{"Step 1": {"question": "A"}, "Step 2": {"question": "B"}}
{"steps": {"1": "A", "2": "B"}}
{"steps": {"eggs": "A", "days": "B"}}
{"steps": {"A": "multiply", "B": "multiply"}}
{"steps": [{"1": "A"}, {"2": "B"}]}
{"steps": [{"step": 1, "description": "A"}, {"step": 2, "description": "B"}]}
{"steps": [{"step": "A", "substeps": ["count"]}, {"step": "B", "substeps": []}]}
{"steps": [{"title": "Daily", "description": "A"}, {"title": "All", "description": "B"}]}
{"steps": [3, null, "A", {"question": 7}, "", "B"]}
{"steps": ["Step 1: A", "Sub-question 2: B"]}
{"steps": "1. A\n2. B"}
{"steps": "[\"A\", \"B\"]"}
"{\"steps\": [\"A\", \"B\"]}"
{"Sub-question 1": "A", "Hint 1": "multiply", "Sub-question 2": "B", "Hint 2": "add"}
{"output": ["A", "B"]}
{"name": "plan", "arguments": {"steps": ["A", "B"]}}
{"given": ["12 hens", "3 eggs"], "steps": ["A", "B"]}
{"missing": [], "result": {"sub_questions": ["A", "B"]}}
{"thoughts": ["easy"], "plan": ["A", "B"]}
{'steps': ['A', 'B',]}
{steps: ['A', 'B']}
{“steps”: [“A”, “B”]}
{"steps": ["A", "B
{"question": "A"}¶{"question": "B"}
{"1": "A"}¶{"2": "B"}
Given: ["12 hens", "3 eggs"]¶Steps: ["A", "B"]
plan = [{'step': 1, 'question': 'A'}, {'step': 2, 'question': 'B'}]
{"steps": ["A",  // first¶"B"]}
"""
IN_LINES = r"""
1. A 2. B
A¶B
	1. A¶	2. B
1. "A"¶2. "B";
**Step 1**¶A¶¶**Step 2**¶B
### Step 1:¶A¶### Step 2:¶B
## Plan¶¶### 1. Daily eggs¶¶A¶¶### 2. All eggs¶¶B
Step 1¶Question: A¶¶Step 2¶Question: B
1. A¶   1. count¶   2. multiply¶2. B¶   - add
1. A¶- count¶- multiply¶2. B
1. A¶1.1 count¶1.2 multiply¶2. B
1. A¶a) count¶b) multiply¶2. B
Step 1: A¶1. hens¶2. eggs¶Step 2: B¶1. days
1. A¶Use the hens.¶¶2. B¶Use the days.
1. A¶Hint: multiply.¶¶2. B¶Hint: multiply.
1. A Hint: multiply.¶2. B (hint: multiply)
1. **Question:** A¶   **Hint:** multiply¶2. **Question:** B¶   **Hint:** add
- question: A¶  hint: multiply¶- question: B¶  hint: add
| # | Sub-question | Hint |¶|---|---|---|¶| 1 | A | multiply |¶| 2 | B | multiply |
| Step | After | To do |¶|:-:|---|---|¶| **1** | - | A |¶| **2** | 1 | B |
# | Sub-question¶---|---¶1 | A¶2 | B
<plan><step>A</step><step>B</step></plan>
<step1>A</step1>¶<step2>B</step2>
<step><title>Daily</title><question>A</question></step><step><question>B</question></step>
Given:¶- 12 hens¶- 3 eggs¶¶Steps:¶- A¶- B
## Given¶- 12 hens¶¶## Plan¶- A¶- B
Given:¶1. 12 hens¶2. 3 eggs¶¶1. A¶2. B
Draft plan:¶1. Count¶2. Sum¶3. Check¶¶Revised plan:¶1. A¶2. B
Let us see, with x^{2}:¶  1. A¶¶  2. B¶That is all.
Plan:¶1. A¶2. B¶¶Critique of the plan:¶1. It is short¶2. It is right
"""
LISTED = [f"{one} A\n{two} B" for one, two in (pair.split("~") for pair in MARKS.split("/"))]
LISTED += [f"{word} 1: A\n{word} 2: B" for word in WORDS.split()]
LISTED += [form.replace("¶", "\n") for form in (IN_JSON + IN_LINES).strip("\n").split("\n") if form]


def read(text: str) -> list[str]:
    try:
        return [step.question for step in Plan.read(text).steps]
    except ValueError:
        return []


@pytest.mark.parametrize("form", LISTED)
def test_a_plan_is_read_in_any_form(form: str) -> None:
    text = re.sub(r"\b[AB]\b", lambda name: A if name[0] == "A" else B, form)
    assert read(text) == [A, B]


@pytest.mark.parametrize(
    "label",
    [
        "",
        "Sure!\n\n",
        "To solve it, we need to:\n",
        "Voici les étapes :\n",
        "子问题：\n",
        "План:\n",
    ],
)
def test_a_numbered_list_under_words_for_a_plan_needs_no_questions(label: str) -> None:
    assert read(f"{label}1. Count the eggs\n2. Multiply") == ["Count the eggs", "Multiply"]


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
        "{}\n\nReasons:\n1. It is short\n2. It is right",
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
        '{"explanations": ["it is so", "I say so"], "tags": ["eggs", "hens"]}',
        '{"name": "search", "arguments": {"query": "hens"}}',
        '{"steps": [{"question": "sub-question | hint", "level": 1, "credit": 1}]}',
        "1. sub-question | hint\n2. ...",
        "I need more information:\n- How old are the hens?\n- Where are they?",
        "[1, 2]",
    ],
)
def test_another_list_is_no_plan(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"steps": ["A?", "B?"], "hints": ["x", "y"], "levels": [1, 2], "credits": [40, 60]}',
        "Part | Hint | Level | Credits\n---|---|---|---\nA? | x | 1 | 40\nB? | y | 2 | 60",
        "1. A?\n   - Hint: x\n   - Level: 1\n   - Credit: 40\n2. B?\nHint: y\nLevel: 2\nCredit: 60",
        "- step: A?\n  hint: x\n  level: 1\n  credit: 40\n- B?\n  tip: y\n  level: 2\n  credit: 60",
    ],
)
def test_hints_and_grades_belong_to_their_steps_wherever_they_stand(text: str) -> None:
    steps = Plan.read(text).steps
    assert [(s.question, s.hint, s.level, s.credit) for s in steps] == [
        ("A?", "x", 1, 40),
        ("B?", "y", 2, 60),
    ]


def test_sub_points_are_part_of_their_point_and_days_keep_their_name() -> None:
    plan = Plan.read("Day 1: The sights\n- museums\n- parks\n\nDay 2: The hills")
    assert [(step.question, step.hint) for step in plan.steps] == [
        ("Day 1: The sights", "museums; parks"),
        ("Day 2: The hills", ""),
    ]


def test_steps_that_are_counted_from_0_are_counted_from_1() -> None:
    items = [{"task": "A?", "depends_on": []}, {"task": "B?", "depends_on": [0]}]
    assert [step.after for step in Plan.read(json.dumps(items)).steps] == [[], [1]]


WORD = st.text(st.characters(codec="utf-8", categories=["Ll", "Lu"]), min_size=2, max_size=8)
ASKED = st.lists(WORD, min_size=2, max_size=4).map(lambda words: f"What is {' '.join(words)}?")


@given(st.lists(ASKED, min_size=2, max_size=5, unique_by=str.casefold), st.sampled_from("-*•1)."))
def test_any_questions_are_read_back_as_they_were_listed(asked: list[str], mark: str) -> None:
    numbered = [f"{n}. {text}" for n, text in enumerate(asked, 1)]
    bulleted = [f"{mark} {text}" for text in asked] if mark in "-*•" else numbered
    for text in ("\n".join(bulleted), "\n\n".join(numbered), json.dumps({"steps": asked})):
        assert read(text) == asked


PIECES = st.sampled_from(
    [*'{}[]":,|\\ \n-1.9e*#①一a)', "```", "steps", "level", "after", "Hint:", "|---|---|", "<step>"]
)


@given(st.text() | st.lists(PIECES, max_size=60).map("".join))
def test_reading_gives_usable_values_or_a_value_error(text: str) -> None:
    for question in read(text):
        assert any(character.isalnum() for character in question)
    assert find_level(text).get("level") in {None, 1, 2, 3, 4, 5}


@pytest.mark.timeout(30)  # seconds; quadratic reading took minutes
@pytest.mark.parametrize(
    "hostile", ["[", '{"a":', "1. ", "- a\n", "<think>", "<step>", "level ", "1", "L1 "]
)
def test_a_long_reply_is_read(hostile: str) -> None:
    read(hostile * 40_000)
    find_level(hostile * 40_000)


LEVEL_4 = (
    r'4~ l4.~Level: 4~Difficulty: 4/5~{"reason": "needs 2 steps", "level": "L4"}~**4**~'
    r"\boxed{4}~4️⃣~４~٤~④~四~四级~L4L4L4~Four.~Level IV~Level-4~Lvl4~lvl. 4~4 out of 5~3.5~3½~"
    r"3,5~难度：4~Stufe 4~level is a solid 4~It's a 4.~L4: many steps or conditions at once~"
    r"L3 or L4? L4.~It is L4 because it has 3 conditions.~"
    r"On a scale of 1 to 5, this is level 4.~On a scale of one to five, this is a four.~"
    r"It is 4 on a scale from 1 (easiest) to 5 (hardest).~"
    r"It has 2 unknowns and 3 equations, so level 4.~Step 1: read. Level: 4~"
    r"Level 1 is too easy, so level 4~Level 4, not level 5.~"
    r"<think>L1? It has 2 steps.</think>L4"
)


@pytest.mark.parametrize("text", LEVEL_4.split("~"))
def test_the_level_is_the_number_that_is_called_so(text: str) -> None:
    assert find_level(text) == {"level": 4}


@pytest.mark.parametrize(
    "text",
    ["", "L6", "12", "-1", "0.5", "hard", "7/10", "3/4", "It has 2 of 3.", "12 hens, 3 eggs."],
)
def test_a_reply_without_a_level_has_none(text: str) -> None:
    assert find_level(text) == {}
