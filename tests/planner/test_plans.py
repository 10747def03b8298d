"""Plans and levels are read in all the forms in which models write them, and made sound."""
# ruff: noqa: RUF001 -- marks and digits of other scripts

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pb_graph.planner.plans import (
    Difficulty,
    Level,
    Plan,
    PlannedStep,
    clean_plan,
    grade_steps,
)
from pb_graph.types import SubQuestion
from tests.support.graphs import query

A, B = "How many eggs a day?", "How many eggs in 5 days?"
JSON_PLAN = json.dumps({"steps": [A, B]})

MARKS = (
    r"1.~2./1)~2)/(1)~(2)/[1]~[2]/1:~2:/1 -~2 -/1\.~2\./**1.**~**2.**/> 1.~> 2./-~-/*~*/•~•/👉~👉"
    "/- [ ]~- [ ]/🐔~📅/1、~2、/①~②/❶~❷/⑴~⑵/一、~二、/（一）~（二）/１．~２．/（1）~（2）"
    "/【1】~【2】/١.~٢./१.~२./1️⃣~2️⃣/第一步：~第二步：/步骤1：~步骤2：/步骤一：~步骤二：/子问题1：~子问题2："
    "/【ステップ1】~【ステップ2】/1단계:~2단계:/a)~b)/I.~II./Q1:~Q2:/Step one:~Step two:"
    r"/Step 1 →~Step 2 →/**Step 1:**~**Step 2**:/**Step 1**~**Step 2**"
    r"/- Step 1:~- Step 2:/First,~Then,/\item~\item"
    "/[Step 1]~[Step 2]/Task #1:~Task #2:/Step 1 of 2:~Step 2 of 2:/Step I:~Step II:/SQ1:~SQ2:"
)
WORDS = (
    "Sub-question Subtask Schritt Étape Paso Passo Stap Krok Adım Langkah Bước Шаг الخطوة चरण שלב "
    "Unterfrage Teilaufgabe Sous-question Sottodomanda Подзадача Subquestão サブ質問 प्रश्न"
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
{"final_plan": ["A", "B"], "rejected_plan": ["Count?", "Sum?"]}
{"tasks": [{"prompt": "A"}, {"prompt": "B"}]}
{"todos": [{"content": "A", "status": "open"}, {"content": "B", "status": "open"}]}
{"tool_calls": [{"function": {"name": "plan", "arguments": "{\"steps\": [\"A\", \"B\"]}"}}]}
[{"type": "tool_use", "name": "plan", "input": {"steps": ["A", "B"]}}]
{"plan": {"phases": [{"name": "Phase 1", "tasks": ["A"]}, {"name": "Phase 2", "tasks": ["B"]}]}}
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
<analysis>¶- 12 hens¶- 3 eggs¶</analysis>¶<plan>¶- A¶- B¶</plan>
<facts>¶<fact>12 hens</fact>¶</facts>¶<steps>¶<step>A</step>¶<step>B</step>¶</steps>
🧩 **Plan**¶¶1️⃣ A¶2️⃣ B
Plan:¶1. A¶2. B¶¶Next steps:¶1. Ask me¶2. Go on
Plan:¶1. A¶2. B¶¶Follow-up questions:¶1. Why so many?¶2. Is it much?
Plan:¶1. A¶2. B¶¶Explanation of the steps:¶1. It counts¶2. It sums
Plan:¶1. A¶2. B¶¶### Final Answer¶- 180 eggs¶- no more
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


def level_in(text: str) -> int | None:
    try:
        return Level.read(text).level
    except ValueError:
        return None


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
        *("Given the problem, here are the steps:\n", "Steps to factor the polynomial:\n"),
        *("We are given 12 hens.\n\nPlan:\n", "Sorry for the confusion. Here is the plan:\n"),
        *("Here is the plan in more detail:\n", "Here are the sub-questions with hints:\n"),
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
        "Could you clarify the following?\n1. How many hens are there?\n2. How many days?",
        "Here is what we know:\n1. There are 12 hens\n2. Each lays 3 eggs",
        "From the problem:\n- There are 12 hens\n- Each lays 3 eggs",
        '{"steps": ["I\'m sorry, but I cannot help with that."]}',
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
    items = [{"id": n, "task": f"What is x{n}?", "after": [1] if n > 1 else []} for n in range(3)]
    assert [step.after for step in Plan.read(json.dumps(items)).steps] == [[], [], [2]]


WORD = st.text(st.characters(codec="utf-8", categories=["Ll", "Lu"]), min_size=2, max_size=8)
ASKED = st.lists(WORD, min_size=2, max_size=4).map(lambda words: f"What is {' '.join(words)}?")


@settings(max_examples=40)
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
    assert level_in(text) in {None, 1, 2, 3, 4, 5}


@pytest.mark.timeout(30)  # seconds; quadratic reading took minutes
@pytest.mark.parametrize(
    "hostile", ["[", '{"a":', "1. ", "- a\n", "<think>", "<step>", "level ", "1", "L1 "]
)
def test_a_long_reply_is_read(hostile: str) -> None:
    read(hostile * 40_000)
    level_in(hostile * 40_000)


LEVEL_4 = (
    r'4~ l4.~Level: 4~Difficulty: 4/5~{"reason": "needs 2 steps", "level": "L4"}~**4**~'
    r"\boxed{4}~4️⃣~４~٤~④~四~四级~L4L4L4~Four.~Level IV~Level-4~Lvl4~lvl. 4~4 out of 5~3.5~3½~"
    r"3,5~难度：4~Stufe 4~level is a solid 4~It's a 4.~L4: many steps or conditions at once~"
    r"L3 or L4? L4.~It is L4 because it has 3 conditions.~"
    r"On a scale of 1 to 5, this is level 4.~On a scale of one to five, this is a four.~"
    r"It is 4 on a scale from 1 (easiest) to 5 (hardest).~"
    r"It has 2 unknowns and 3 equations, so level 4.~Step 1: read. Level: 4~"
    r"Level 1 is too easy, so level 4~Level 4, not level 5.~"
    r"<think>L1? It has 2 steps.</think>L4~L1? No, many steps: L4~L4<|im_end|>"
)


@pytest.mark.parametrize("text", LEVEL_4.split("~"))
def test_the_level_is_the_number_that_is_called_so(text: str) -> None:
    assert level_in(text) == 4


@pytest.mark.parametrize(
    "text",
    ["", "L6", "12", "-1", "0.5", "hard", "7/10", "3/4", "It has 2 of 3.", "12 hens, 3 eggs."],
)
def test_a_reply_without_a_level_has_none(text: str) -> None:
    assert level_in(text) is None


@pytest.mark.parametrize("latex", [r"\frac{1}{2}", r"3 \times 4", r"a \neq b"])
def test_latex_survives_json_whether_or_not_its_backslash_was_doubled(latex: str) -> None:
    bare = f'{{"steps": ["What is {latex}?"]}}'
    doubled = json.dumps({"steps": [f"What is {latex}?"]})
    assert read(bare) == read(doubled) == [f"What is {latex}?"]


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("What? | look | after 1, 2", PlannedStep(question="What?", hint="look", after=[1, 2])),
        ("What? | - | after nothing", PlannedStep(question="What?", after=[])),
        ("What? | after it, add 2", PlannedStep(question="What?", hint="after it, add 2")),
        ("What? | nach Schritt 1", PlannedStep(question="What?", after=[1])),
        ("Is |x - 3| = P(A|B)?", PlannedStep(question="Is |x - 3| = P(A|B)?")),
        ("Case 1: n is even?", PlannedStep(question="Case 1: n is even?")),
        ("What? Hint: look. | after 1", PlannedStep(question="What?", hint="look.", after=[1])),
        ({"task": "What?", "depends_on": []}, PlannedStep(question="What?", after=[])),
        (
            {"question": "Q | h", "after": ["1"], "level": "level 4", "credit": 12},
            PlannedStep(question="Q", hint="h", after=[1], level=4, credit=12),
        ),
    ],
)
def test_a_step_says_its_hint_and_its_needs(text: object, step: PlannedStep) -> None:
    assert Plan.read(json.dumps({"steps": [text]})).steps == [step]


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
        ('{"Levels": {"1": 2, "2": 4}}', Difficulty(levels=[2, 4])),
        (
            "Level: 4\nLevels: 2, 4\nCredits: 40, 60",
            Difficulty(level=4, levels=[2, 4], credits=[40, 60]),
        ),
        (  # the form that the paper asks for
            (
                '{"problem": {"reason": "x 2", "evaluated_level": 4}, "1": {"evaluated_level": 2, '
                '"credit": 40}, "2": {"evaluated_level": 4, "credit": 60}}'
            ),
            Difficulty(level=4, levels=[2, 4], credits=[40, 60]),
        ),
    ],
)
def test_difficulties_are_read(text: str, expected: Difficulty) -> None:
    assert Difficulty.read(text) == expected


@pytest.mark.parametrize(
    ("kind", "texts", "said"),
    [
        (Plan, ["", '{"steps": []}', "I cannot do that.", "[" * 9999], "no sub-question found"),
        (Difficulty, ["", "{}", "hard", "[]"], "no levels found"),
        (Level, ["hard"], "no level found"),
    ],
)
def test_a_reply_without_the_value_is_an_error_that_says_so(
    kind: type[Plan | Difficulty | Level], texts: list[str], said: str
) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=said):
            kind.read(text)


PLANNED = st.lists(
    st.builds(
        PlannedStep,
        question=st.sampled_from([r"What is \frac{a}{b}?", 'How many "à 3 €"?', "Which {x}?"]),
        hint=st.sampled_from(["", "by counting"]),
        after=st.none() | st.lists(st.integers(1, 20), max_size=4),
    ),
    min_size=1,
    max_size=6,
)


@given(PLANNED)
def test_what_a_planner_is_shown_reads_back(steps: list[PlannedStep]) -> None:
    assert Plan.read(Plan(steps=steps).to_text()).steps == steps
    graded = Plan(steps=[step.model_copy(update={"level": 2, "credit": 9}) for step in steps])
    assert Plan.read(graded.to_text()) == graded
    found = Difficulty(level=2, levels=[1, None], credits=[30, 70])
    assert Difficulty.read(found.to_text()) == found
    assert Level.read(Level(level=4).to_text()) == Level(level=4)


def plan(*questions: str, **needs: list[int]) -> Plan:
    """A plan; ``b=[1]`` says that question 'b' needs the first."""
    return Plan(steps=[PlannedStep(question=q, after=needs.get(q)) for q in questions])


def cleaned(plan: Plan) -> list[tuple[str, list[int]]]:
    steps, _ = clean_plan(plan, query(), 5)
    assert [step["index"] for step in steps] == list(range(len(steps)))
    return [(step["question"], step["depends_on"]) for step in steps]


class TestSteps:
    def test_a_step_that_names_no_others_needs_the_one_before_it(self) -> None:
        sound = plan("a", "b", "c", "d", a=[], b=[], c=[1, 2])
        assert cleaned(sound) == [("a", []), ("b", []), ("c", [0, 1]), ("d", [2])]
        assert clean_plan(sound, query(), 5)[1] == []

    def test_only_earlier_steps_can_be_needed(self) -> None:
        assert cleaned(plan("a", "b", "c", b=[1, 2, 3, 8]))[1] == ("b", [0])
        assert cleaned(plan("a", "b", "c", c=[10])) == cleaned(plan("a", "b", "c"))

    def test_an_equal_step_is_dropped_and_a_step_that_needs_it_gets_the_first(self) -> None:
        steps = ["a?", "b?", "A", "Sub-question", "c?", "d?"]
        found = cleaned(plan(*steps, **{"c?": [3], "d?": [2, 5]}))
        assert found == [("a?", []), ("b?", [0]), ("c?", [0]), ("d?", [1, 2])]

    def test_steps_that_differ_in_a_figure_or_a_sign_are_not_equal(self) -> None:
        assert len(cleaned(plan("What is x + 1?", "What is x - 1?", "What is x + 2?"))) == 3

    def test_a_plan_that_is_too_long_keeps_its_last_step(self) -> None:
        steps, warnings = clean_plan(plan(*"abcdefgh", h=[2, 7]), query(), 5)
        assert [step["question"] for step in steps] == list("abcdh")
        assert steps[4]["index"] == 4
        assert steps[4]["depends_on"] == [1]
        assert [warning["code"] for warning in warnings] == ["plan_corrected"]


class TestHints:
    @pytest.mark.parametrize(
        ("hint", "has_value"),
        [
            ("divide by the price of a group", False),
            ("use all of the 14.0 dollars", False),
            ("14 / 2 = 9", True),
            ("it is about 1,100", True),
            (r"10 \equiv 2 (mod 8); 10^k is 0 for k \geq 3, which leaves -1", False),
            ("join what holds modulo 8 and modulo 125 to one modulo 1000", False),
        ],
    )
    def test_a_hint_with_a_number_that_is_not_known_has_a_value(
        self, hint: str, has_value: bool
    ) -> None:
        step = PlannedStep(question="How many, modulo 125?", hint=hint)
        about = query("Pens are 3 for $2. How many does $14 buy at 12pm, by 1000?")
        (asked,), _ = clean_plan(Plan(steps=[step]), about, 5)
        assert asked["hint"] == ("" if has_value else hint)

    def test_numbers_of_the_reference_the_conversation_and_earlier_steps_are_known(self) -> None:
        steps = [
            PlannedStep(question="What is 77 less?", hint="of the 36 eggs"),
            PlannedStep(question="And then?", hint="take 77 and 55 away, not 44"),
        ]
        about = query(reference="There are 36 eggs.", conversation="It was 55 before.")
        found, warnings = clean_plan(Plan(steps=steps), about, 5)
        assert [step["hint"] for step in found] == ["of the 36 eggs", ""]
        assert [warning["code"] for warning in warnings] == ["plan_corrected"]


def steps_of(count: int) -> list[SubQuestion]:
    return clean_plan(plan(*"abcdefgh"[:count]), query(), 8)[0]


class TestGrades:
    @pytest.mark.parametrize(
        ("found", "expected"),
        [
            (Difficulty(level=4, levels=[1, 5], credits=[20, 80]), (4, [1, 5], [20, 80], 0)),
            (Difficulty(level=9, levels=[2.4, -3], credits=[50, 50]), (5, [2, 1], [50, 50], 2)),
            (Difficulty(level=3, levels=[3, 3], credits=[10, 30]), (3, [3, 3], [25, 75], 1)),
            (Difficulty(level=3, levels=[3, 3], credits=[-1, 40]), (3, [3, 3], [50, 50], 1)),
            (Difficulty(level=2, levels=[1], credits=[1, 2, 3]), (2, [2, 2], [50, 50], 2)),
            (Difficulty(), (3, [3, 3], [50, 50], 3)),
        ],
        ids=["sound", "out of range", "other sum", "negative", "wrong length", "none"],
    )
    def test_levels_are_1_to_5_and_credits_sum_to_100(
        self, found: Difficulty, expected: object
    ) -> None:
        level, steps, warnings = grade_steps(found, steps_of(2), None)
        grades = [s["level"] for s in steps], [s["credit"] for s in steps]
        assert (level, *grades, len(warnings)) == expected

    def test_a_known_level_wins(self) -> None:
        assert grade_steps(Difficulty(level=5, levels=[1], credits=[100]), steps_of(1), 2)[0] == 2

    def test_a_step_takes_its_grades_along_when_others_are_dropped(self) -> None:
        steps = [PlannedStep(question=q, level=n, credit=10 * n) for n, q in enumerate("aabc", 1)]
        found, _ = clean_plan(Plan(steps=steps), query(), 2)
        assert [(s["level"], s["credit"]) for s in found] == [(1, 20), (4, 80)]

    @given(st.lists(st.none() | st.floats(-1e9, 1e9), max_size=6), st.integers(1, 6))
    def test_credits_always_sum_to_100(self, values: list[float | None], count: int) -> None:
        _, steps, _ = grade_steps(Difficulty(credits=values), steps_of(count), 3)
        assert sum(step["credit"] or 0 for step in steps) == pytest.approx(100, abs=0.1)
