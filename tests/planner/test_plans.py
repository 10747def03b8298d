"""A plan becomes the steps of a run by three rules, and its grades are fitted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.planner.plans import Difficulty, Level, Plan, PlannedStep, clean_plan, grade_steps
from pb_graph.types import Query, SubQuestion


def questions(text: str) -> list[str]:
    return [step.question for step in Plan.read(text).steps]


def read_step(item: object) -> PlannedStep:
    (step,) = Plan.read(json.dumps({"steps": [item]})).steps
    return step


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
        ("What? Hint: look. | after 1", PlannedStep(question="What?", hint="look.", after=[1])),
        ({"task": "What?", "depends_on": []}, PlannedStep(question="What?", after=[])),
        (
            {"question": "Q | h", "after": ["1"], "level": "level 4", "credit": 12},
            PlannedStep(question="Q", hint="h", after=[1], level=4, credit=12),
        ),
    ],
)
def test_a_step_says_its_hint_and_its_needs(text: object, step: PlannedStep) -> None:
    assert read_step(text) == step


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
        (Level, ["", "L6", "12", "-1", "0.5", "hard"], "no level found"),
    ],
)
def test_a_reply_without_the_value_is_an_error_that_says_so(
    kind: type[Plan | Difficulty | Level], texts: list[str], said: str
) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=said):
            kind.read(text)


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
    graded = Plan(steps=[step.model_copy(update={"level": 2, "credit": 9}) for step in steps])
    assert Plan.read(graded.to_text()) == graded
    found = Difficulty(level=2, levels=[1, None], credits=[30, 70])
    assert Difficulty.read(found.to_text()) == found
    assert Level.read(Level(level=4).to_text()) == Level(level=4)


def query(question: str = "How many?", **fields: str) -> Query:
    return Query(  # type: ignore[typeddict-item]  # fields by name
        question=question,
        reference=fields.get("reference"),
        instruction=None,
        answer_format=None,
        domain="mathematics",
        level=None,
        conversation=fields.get("conversation"),
    )


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
