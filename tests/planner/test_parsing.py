"""What planners write, in all its untidiness, and what is made of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.planner.parsing import (
    MAX_HINT,
    MAX_ITEMS,
    MAX_NUMBER,
    MAX_QUESTION,
    Difficulty,
    GradedPlan,
    Plan,
    PlannedStep,
)

TWO = ["What is given?", "What follows?"]


def questions(text: str) -> list[str]:
    return [step.question for step in Plan.read(text).steps]


def step(text: str) -> PlannedStep:
    (only,) = Plan.read(json.dumps({"steps": [text]})).steps
    return only


@pytest.mark.parametrize(
    "text",
    [
        '{"steps": ["What is given?", "What follows?"]}',
        '["What is given?", "What follows?"]',
        '{"plan": [{"question": "What is given?"}, {"sub_question": "What follows?"}]}',
        '{"1": "What is given?", "2": "What follows?"}',
        '```json\n{"steps": ["What is given?", "What follows?"]}\n```\nDone.',
        '```\n["What is given?", "What follows?"]',
        'Sure! Here it is: {"steps": ["What is given?", "What follows?"]} I hope it helps.',
        '{"steps": ["Step 1: What is given?", "Sub-question 2: What follows?"]}',
        "{'steps': ['What is given?', 'What follows?',]}",
        '{"steps": [3, null, "What is given?", {"question": 7}, "", "What follows?"]}',
        "1. What is given?\n2. What follows?",
        "1) What is given?\n2) What follows?",
        "(1) What is given?\n(2) What follows?",
        "1: What is given?\n2: What follows?",
        "Step 1: What is given?\nStep 2: What follows?",
        "Sub-question 1. What is given?\nSubquestion 2. What follows?",
        "**1.** What is given?\n**2.** What follows?",
        "**Step 1:** What is given?\n**Step 2**: What follows?",
        "### 1. What is given?\n### 2. **What follows?**",
        "> 1. What is given?\n> 2. What follows?",
        "  1. What is given?\n\n\n  2. What follows?\n",
        "- What is given?\n- What follows?",
        "* **What is given?**\n• What follows?",
        "Let us see, in [two] parts with x^{2}:\n1. What is given?\n2. What follows?\nThat is all.",
    ],
)
def test_a_plan_is_read_from(text: str) -> None:
    assert questions(text) == TWO


@pytest.mark.parametrize(
    "text", ['{"steps": ["What is given?", "What foll', '["What is given?", "What foll']
)
def test_a_plan_that_was_cut_off_keeps_what_was_written(text: str) -> None:
    assert questions(text) == ["What is given?", "What foll"]


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "{}", "[]", '{"steps": []}', "I cannot do that.", "-" * 60, "* * *", "[1, 2]"],
)
def test_no_plan_is_an_error_that_says_what_is_missing(text: str) -> None:
    with pytest.raises(ValueError, match="no sub-question found"):
        Plan.read(text)


def test_brackets_in_a_numbered_line_are_part_of_the_question() -> None:
    text = "1. What is in {1, 2}?\n2. What is [a, b] for?"
    assert questions(text) == ["What is in {1, 2}?", "What is [a, b] for?"]


def test_hint_and_needs_follow_after_pipes() -> None:
    assert step("What? | look closely | after 1, 2") == PlannedStep(
        question="What?", hint="look closely", depends_on=[0, 1]
    )


@pytest.mark.parametrize(
    ("said", "indices"),
    [
        ("after 1", [0]),
        ("after 1, 2", [0, 1]),
        ("after 1 and 3", [0, 2]),
        ("After steps 1, 2 and 3.", [0, 1, 2]),
        ("after step 1 and step 2", [0, 1]),
        ("needs #2", [1]),
        ("depends on 1", [0]),
        ("2", [1]),
        ("after nothing", []),
        ("needs: none", []),
    ],
)
def test_needs_are_read_from(said: str, indices: list[int]) -> None:
    assert step(f"What? | {said}") == PlannedStep(question="What?", depends_on=indices)


@pytest.mark.parametrize(
    ("said", "indices"),
    [
        ([[], [0], [0], [1, 2]], [[], [0], [0], [1, 2]]),
        ([None, [0], None, [0, 2]], [None, [0], None, [0, 2]]),
        ([[0], [1], [2]], [[-1], [0], [1]]),  # from 1, and nothing
        ([[], [0], [2]], [[], [-1], [1]]),
        ([[], [1], [1, 2]], [[], [0], [0, 1]]),
    ],
)
def test_a_plan_that_speaks_of_a_number_0_is_counted_from_0_if_it_can_be(
    said: list[list[int] | None], indices: list[list[int] | None]
) -> None:
    rows = [
        {"question": f"{letter}?", "depends_on": n} for letter, n in zip("abcd", said, strict=False)
    ]
    assert [read.depends_on for read in Plan.read(json.dumps(rows)).steps] == indices


@pytest.mark.parametrize(
    "text",
    [
        "0. a?\n1. b?\n2. c? | after 1\n3. d? | after 1, 2",
        "Step 0: a?\nStep 1: b?\nStep 2: c? | after 1\nStep 3: d? | after 1, 2",
        '{"0": "a?", "1": "b?", "2": "c? | after 1", "3": "d? | after 1, 2"}',
    ],
)
def test_a_plan_that_is_numbered_from_0_is_counted_from_0(text: str) -> None:
    assert [read.depends_on for read in Plan.read(text).steps] == [None, None, [1], [1, 2]]


def test_nothing_said_about_needs_is_not_the_same_as_needing_nothing() -> None:
    assert step("What? | divide by 7").depends_on is None


def test_an_empty_hint_is_no_hint() -> None:
    assert step("What? | - | | after 1") == PlannedStep(question="What?", depends_on=[0])


@pytest.mark.parametrize("mark", ["Hint:", "   *Hint*:", "- Hint:", "**Hint:**", "(Hint)"])
def test_a_hint_on_its_own_line_belongs_to_the_line_before(mark: str) -> None:
    first, second = Plan.read(f"1. What is given?\n{mark} read it\n2. What follows?").steps
    assert (first.hint, second.hint) == ("read it", "")


def test_an_object_says_all_there_is_to_say() -> None:
    row = {"question": "Q", "hint": "h", "depends_on": ["1"], "level": "level 4", "credit": 12.5}
    (read,) = Plan.read(json.dumps([row])).steps
    assert read == PlannedStep(question="Q", hint="h", depends_on=[0], level=4, credit=12.5)


@pytest.mark.parametrize(
    "latex",
    [r"\frac{1}{2}", r"3 \times 4", r"a \neq b", r"\beta + \rho", r"\( x \)", r"\underline{u}"],
)
def test_latex_survives_json_whether_or_not_its_backslash_was_doubled(latex: str) -> None:
    bare = f'{{"steps": ["What is {latex}?"]}}'
    doubled = json.dumps({"steps": [f"What is {latex}?"]})
    assert questions(bare) == questions(doubled) == [f"What is {latex}?"]
    assert questions(bare[:-3]) == [f"What is {latex}?"]  # cut off


def test_real_escapes_stay_escapes() -> None:
    assert questions(r'{"steps": ["A \"caf\u00e9\"?"]}') == ['A "café"?']


def test_control_codes_and_half_letters_never_get_through() -> None:
    assert questions(r'{"steps": ["a\u001b[2Jb \u0000c\ud800 \u009bd"]}') == ["a [2Jb c d"]


def test_long_texts_are_cut_to_size() -> None:
    plan = Plan.read(json.dumps({"steps": [f"{'q' * 900} | {'h' * 900}"] * 2}))
    assert {(len(read.question), len(read.hint)) for read in plan.steps} == {
        (MAX_QUESTION, MAX_HINT)
    }


def test_the_level_of_a_graded_plan_is_optional() -> None:
    graded = '{"level": "3", "steps": [{"question": "Q", "level": 2, "credits": "60 points"}]}'
    assert GradedPlan.read(graded) == GradedPlan(
        level=3, steps=[PlannedStep(question="Q", level=2, credit=60)]
    )
    assert GradedPlan.read("1. Q").level is None


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
        (
            '{"problem": {"level": 2}, "steps": [{"level": 1, "credit": 9}, {"points": 5}]}',
            Difficulty(level=2, levels=[1, None], credits=[9, 5]),
        ),
        ('{"level": NaN, "levels": [Infinity, 2]}', Difficulty(levels=[None, 2])),
        ('{"levels": [1' + "0" * 500 + ", 1e999, -1e300]}", Difficulty(levels=[None] * 3)),
        ('{"level": 2, "levels": [1, 3', Difficulty(level=2, levels=[1, 3])),
        ("Level of the problem: 3", Difficulty(level=3)),
        ("4", Difficulty(level=4)),
        (
            "Level: 3\n1. level 2, 40 credits\n2. level 4, 60 credits",
            Difficulty(level=3, levels=[2, 4], credits=[40, 60]),
        ),
        ("1. " + "9" * 400, Difficulty(level=1, levels=[None], credits=[None])),
    ],
)
def test_difficulties_are_read_from(text: str, expected: Difficulty) -> None:
    assert Difficulty.read(text) == expected


@pytest.mark.parametrize(
    "question",
    [
        "What is |x - 3| when x = 1?",
        "How many whole numbers have |x + 2| < 5?",
        "What is P(A|B)?",
        "How many elements has {x | x > 0}?",
        "Which x in [0, 5) have |x| > 1?",
    ],
)
def test_bars_of_mathematics_separate_nothing(question: str) -> None:
    assert step(question) == PlannedStep(question=question)
    assert step(f"{question} | count | after 1") == PlannedStep(
        question=question, hint="count", depends_on=[0]
    )


@pytest.mark.parametrize("text", ["", "{}", "hard", "[]", "{}[]", "9" * 400])
def test_no_number_is_an_error_that_says_what_is_missing(text: str) -> None:
    with pytest.raises(ValueError, match="no levels found"):
        Difficulty.read(text)


HOSTILE = [
    "-" * 500 + "x",
    "#* " * 5000,
    "```" * 6000,
    "`" * 20_000,
    "1. a | " + "1" * 500 + "x",
    "1. a | " + "1 , and " * 2000,
    '["(' + " | (" * 5000 + '"]',
    "step " * 4000,
    "Hint" + ": " * 9000,
    "level " * 4000,
    "[" * 20_000,
    '[{"a":' * 5000,
    '["' * 10_000,
    '{"steps":[' + "\n{]" * 5000,
    '{"steps":[' + '"1' * 5000,
    "\\" * 20_000,
    "x" * 1_000_000,
    "1. a\n" * 200_000,
    '{"steps": ["a"' + ', "a"' * 300_000 + "]}",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:12]))
def test_hostile_text_takes_neither_long_nor_the_process(text: str) -> None:
    for kind in (Plan, GradedPlan, Difficulty):
        try:
            found = kind.read(text)
        except ValueError:
            continue
        assert not isinstance(found, Plan) or len(found.steps) <= MAX_ITEMS


WORDINGS = ["steps", "level", "credits", "NaN", "after", "Hint:", "Step 1:", r"\u00", "true"]
PIECES = st.sampled_from([*'{}[]":,|\\ \n-1.9e', "```", *WORDINGS])
TEXTS = st.text() | st.lists(PIECES, max_size=60).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(
            st.sampled_from(["steps", "level", "levels", "credits", "question", "1"]) | st.text(),
            inner,
            max_size=6,
        )
    ),
)


@given(TEXTS | JSON.map(json.dumps))
def test_reading_gives_a_plan_or_a_value_error(text: str) -> None:
    try:
        steps = GradedPlan.read(text).steps
    except ValueError:
        return
    assert 0 < len(steps) <= MAX_ITEMS
    for read in steps:
        assert any(character.isalnum() for character in read.question)
        assert len(read.question) <= MAX_QUESTION
        assert len(read.hint) <= MAX_HINT
        assert all(abs(x) < MAX_NUMBER for x in (read.level, read.credit) if x is not None)
        (read.question + read.hint).encode()


@given(TEXTS | JSON.map(json.dumps))
def test_reading_gives_difficulties_or_a_value_error(text: str) -> None:
    try:
        found = Difficulty.read(text)
    except ValueError:
        return
    assert max(len(found.levels), len(found.credits)) <= MAX_ITEMS
    numbers = [found.level, *found.levels, *found.credits]
    assert all(abs(number) < MAX_NUMBER for number in numbers if number is not None)


WORDS = st.lists(
    st.sampled_from(["How many", "groups", r"\frac{a}{b}", "à 3 €", '"quoted"', "{x}"]),
    min_size=1,
    max_size=8,
).map(" ".join)
STEPS = st.builds(
    PlannedStep,
    question=WORDS.map(lambda words: f"What of {words}?"),
    hint=st.just("") | WORDS.map(lambda words: f"by {words}"),
    depends_on=st.none() | st.lists(st.integers(0, 20), max_size=4),
)
GRADES = st.none() | st.integers(0, 100).map(float)
GRADED_STEPS = st.tuples(STEPS, GRADES, GRADES).map(
    lambda row: row[0].model_copy(update={"level": row[1], "credit": row[2]})
)


@given(st.lists(STEPS, min_size=1, max_size=8))
def test_a_written_plan_reads_back(steps: list[PlannedStep]) -> None:
    plan = Plan(steps=steps)
    assert Plan.read(plan.written()) == plan


@given(st.lists(GRADED_STEPS, min_size=1, max_size=8), GRADES)
def test_a_written_graded_plan_reads_back(steps: list[PlannedStep], level: float | None) -> None:
    plan = GradedPlan(steps=steps, level=level)
    assert GradedPlan.read(plan.written()) == plan


@given(st.lists(st.tuples(GRADES, GRADES), min_size=1, max_size=8), GRADES)
def test_written_difficulties_read_back(
    rows: list[tuple[float | None, float | None]], level: float | None
) -> None:
    found = Difficulty(level=level, levels=[x for x, _ in rows], credits=[x for _, x in rows])
    assert Difficulty.read(found.written()) == found


@pytest.mark.parametrize(
    "nested", ['{"level": 4, "x": ' + "[" * 300, '{"level": 4, "x": ' + "{" * 300]
)
def test_brackets_in_brackets_are_not_mended(nested: str) -> None:
    """Mending them takes time that grows with the square of their depth."""
    assert Difficulty.read(nested[:30]).level == 4
    with pytest.raises(ValueError, match="no levels found"):
        Difficulty.read(nested.replace("level", "grade"))
