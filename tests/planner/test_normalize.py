"""What is corrected in a planner's opinion, and that every correction is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.planner.normalize import normalize_difficulty, normalize_graded, normalize_plan
from pb_graph.planner.parsing import Difficulty, GradedPlan, Plan, PlannedStep
from pb_graph.types import SubQuestion

MOST = 5


def plan(*questions: str, **needs: list[int]) -> Plan:
    """A plan; ``b=[0]`` says that question 'b' depends on the first."""
    return Plan(steps=[PlannedStep(question=q, depends_on=needs.get(q)) for q in questions])


def settled(count: int) -> list[SubQuestion]:
    return normalize_plan(plan(*"abcdefgh"[:count]), 8)[0]


def graded(
    found: Difficulty, count: int, known_level: int | None = None
) -> tuple[int, list[int | None], list[float | None], list[str]]:
    level, steps, notes = normalize_difficulty(found, settled(count), known_level)
    return level, [step["level"] for step in steps], [step["credit"] for step in steps], notes


def test_a_sound_plan_is_taken_as_it_is() -> None:
    steps, notes = normalize_plan(plan("a", "b", "c", a=[], b=[0], c=[0, 1]), MOST)
    assert [(s["index"], s["question"], s["depends_on"]) for s in steps] == [
        (0, "a", []),
        (1, "b", [0]),
        (2, "c", [0, 1]),
    ]
    assert notes == []


def test_a_step_that_says_nothing_builds_on_the_one_before() -> None:
    steps, notes = normalize_plan(plan("a", "b", "c"), MOST)
    assert [s["depends_on"] for s in steps] == [[], [0], [1]]
    assert notes == []


def test_a_step_that_needs_nothing_needs_nothing() -> None:
    steps, notes = normalize_plan(plan("a", "b", b=[]), MOST)
    assert [s["depends_on"] for s in steps] == [[], []]
    assert notes == []


@pytest.mark.parametrize(
    ("needs", "kept"),
    [([1], []), ([2], []), ([7], []), ([-1], []), ([0, 2], [0]), ([1, 1], [])],
    ids=["itself", "a later one", "none there", "number 0", "one of two", "itself twice"],
)
def test_only_earlier_steps_can_be_needed(needs: list[int], kept: list[int]) -> None:
    steps, notes = normalize_plan(plan("a", "b", "c", b=needs), MOST)
    assert steps[1]["depends_on"] == kept
    assert notes == [
        "sub-question 2 was said to depend on others than earlier ones: corrected",
    ]


def test_a_circle_is_cut_open() -> None:
    steps, notes = normalize_plan(plan("a", "b", a=[1], b=[0]), MOST)
    assert [s["depends_on"] for s in steps] == [[], [0]]
    assert len(notes) == 1


def test_the_same_need_said_twice_is_no_fault() -> None:
    assert normalize_plan(plan("a", "b", b=[0, 0]), MOST)[1] == []


def test_a_repeat_is_dropped_and_whoever_needs_it_gets_the_first() -> None:
    steps, notes = normalize_plan(plan("a", "b", "A", "c", "d", c=[2], d=[1, 3]), MOST)
    assert [(s["index"], s["question"], s["depends_on"]) for s in steps] == [
        (0, "a", []),
        (1, "b", [0]),
        (2, "c", [0]),
        (3, "d", [1, 2]),
    ]
    assert notes == ["the plan repeated 1 sub-question(s): dropped"]


def test_the_same_question_in_other_words_is_a_repeat() -> None:
    steps, notes = normalize_plan(plan("What is the area?", "Find the  AREA.", "What is x?"), MOST)
    assert [s["question"] for s in steps] == ["What is the area?", "What is x?"]
    assert notes == ["the plan repeated 1 sub-question(s): dropped"]


def test_a_step_that_asks_nothing_is_dropped() -> None:
    steps, notes = normalize_plan(plan("What is x?", "Sub-question", "What is y?"), MOST)
    assert [(s["question"], s["depends_on"]) for s in steps] == [
        ("What is x?", []),
        ("What is y?", [0]),
    ]
    assert notes == ["the plan had 1 sub-question(s) without a question: dropped"]


def test_a_stated_result_is_dropped_and_who_needs_it_needs_what_it_was_made_of() -> None:
    planned = plan("a", "b", "x = 5.", "c", "d", **{"x = 5.": [0], "c": [2], "d": [2, 1]})
    steps, notes = normalize_plan(planned, MOST)
    assert [(s["question"], s["depends_on"]) for s in steps] == [
        ("a", []),
        ("b", [0]),
        ("c", [0]),
        ("d", [0, 1]),
    ]
    assert notes == ["the plan stated 1 result(s) where it should ask: dropped"]


def test_what_a_step_asks_is_kept_without_the_result_beside_it() -> None:
    steps, notes = normalize_plan(plan("How many pens? 7 * 3 = 21", "b"), MOST)
    assert [s["question"] for s in steps] == ["How many pens?", "b"]
    assert notes == ["the plan stated results beside 1 sub-question(s): only what they ask is kept"]


def test_a_figure_of_the_question_is_no_result() -> None:
    told = plan("The side is 9 cm. What is the area?")
    assert normalize_plan(told, MOST, "A square has a side of 9 cm.")[1] == []
    assert normalize_plan(told, MOST)[0][0]["question"] == "What is the area?"


def test_a_hint_with_a_value_is_dropped_and_one_that_names_a_way_is_kept() -> None:
    hints = ["multiply by 3", "it is 21", "halve it"]
    steps = [PlannedStep(question=q, hint=h) for q, h in zip("abc", hints, strict=True)]
    kept, notes = normalize_plan(Plan(steps=steps), MOST, "3 pens cost $2")
    assert [s["hint"] for s in kept] == ["multiply by 3", "", "halve it"]
    assert notes == ["the plan had 1 hint(s) with values: dropped"]


def test_a_correction_of_the_first_step_is_one() -> None:
    step = PlannedStep(question="How many pens? It is 21.", hint="it is 21")
    assert [note.partition(":")[0] for note in normalize_plan(Plan(steps=[step]), MOST)[1]] == [
        "the plan stated results beside 1 sub-question(s)",
        "the plan had 1 hint(s) with values",
    ]


def test_a_hint_may_repeat_a_figure_of_its_own_sub_question() -> None:
    step = PlannedStep(question="How many boxes are 36 eggs?", hint="divide 36 by a boxful")
    (kept,), notes = normalize_plan(Plan(steps=[step]), MOST, "A box holds a dozen eggs.")
    assert (kept["hint"], notes) == ("divide 36 by a boxful", [])


def test_a_plan_that_only_states_is_none() -> None:
    assert normalize_plan(plan("x = 5.", "The area is 25."), MOST)[0] == []


def test_too_many_steps_are_cut_to_the_first_ones() -> None:
    steps, notes = normalize_plan(plan(*"abcdefgh"), MOST)
    assert [s["question"] for s in steps] == list("abcde")
    assert notes == ["the plan had 8 sub-questions: the first 5 are kept"]


def test_sound_estimates_are_taken_as_they_are() -> None:
    found = Difficulty(level=4, levels=[1, 5], credits=[20, 80])
    assert graded(found, 2) == (4, [1, 5], [20, 80], [])


def test_levels_are_clipped_and_rounded_and_that_is_said() -> None:
    found = Difficulty(level=9, levels=[0, -3, 2.6], credits=[50, 25, 25])
    level, levels, _, notes = graded(found, 3)
    assert (level, levels) == (5, [1, 1, 3])
    assert notes == [
        "the level of the question was 9: 5 is used",
        "the level of sub-question 1 was 0: 1 is used",
        "the level of sub-question 2 was -3: 1 is used",
        "the level of sub-question 3 was 2.6: 3 is used",
    ]


def test_a_known_level_stands() -> None:
    assert graded(Difficulty(level=5, levels=[1], credits=[100]), 1, known_level=2)[0] == 2


def test_unread_levels_are_the_questions_and_its_own_is_the_middle() -> None:
    found = Difficulty(levels=[None, 2], credits=[50, 50])
    level, levels, _, notes = graded(found, 2)
    assert (level, levels) == (3, [3, 2])
    assert len(notes) == 2


@pytest.mark.parametrize(
    ("credits_", "expected", "note"),
    [
        ([40, 40], [50, 50], "the credits summed to 80: re-scaled to 100"),
        ([150, 50], [75, 25], "the credits summed to 200: re-scaled to 100"),
        ([0.6, 0.4], [60, 40], "the credits summed to 1: re-scaled to 100"),
        ([0, 0], [50, 50], "no usable credits: all sub-questions count the same"),
        ([None, None], [50, 50], "no usable credits: all sub-questions count the same"),
        ([-5, -1], [50, 50], "no usable credits: all sub-questions count the same"),
        ([50, -5], [50, 50], "1 credit(s) were no positive numbers: the mean of the others"),
        ([None, 50], [50, 50], "1 credit(s) were no positive numbers: the mean of the others"),
        ([100], [50, 50], "1 credits were given for 2 sub-questions: not used"),
        ([30, 30, 40], [50, 50], "3 credits were given for 2 sub-questions: not used"),
        ([], [50, 50], "0 credits were given for 2 sub-questions: not used"),
    ],
)
def test_unusable_credits_are_replaced(
    credits_: list[float | None], expected: list[float], note: str
) -> None:
    _, _, shares, notes = graded(Difficulty(level=3, levels=[3, 3], credits=credits_), 2)
    assert shares == expected
    assert any(said.startswith(note) for said in notes)


def test_credits_in_thirds_are_no_fault() -> None:
    found = Difficulty(level=3, levels=[3] * 3, credits=[33, 33, 34])
    assert graded(found, 3)[2:] == ([33, 33, 34], [])
    assert graded(Difficulty(level=3, levels=[3] * 3, credits=[33.3] * 3), 3)[3] == []


def test_levels_of_a_wrong_number_cannot_be_matched_up() -> None:
    _, levels, _, notes = graded(Difficulty(level=2, levels=[1], credits=[50, 50]), 2)
    assert levels == [2, 2]
    assert notes[0] == "1 levels were given for 2 sub-questions: not used"


def test_without_sub_questions_only_the_level_is_settled() -> None:
    assert normalize_difficulty(Difficulty(level=4), [], None) == (4, [], [])


def test_grades_stay_with_their_step_when_a_repeat_is_dropped() -> None:
    steps = [
        PlannedStep(question="a", level=1, credit=20),
        PlannedStep(question="a", level=5, credit=60),
        PlannedStep(question="b", level=2, credit=20),
    ]
    level, kept, notes = normalize_graded(GradedPlan(steps=steps, level=3), MOST, None)
    assert level == 3
    assert [(s["question"], s["level"], s["credit"]) for s in kept] == [("a", 1, 50), ("b", 2, 50)]
    assert notes == [
        "the plan repeated 1 sub-question(s): dropped",
        "the credits summed to 40: re-scaled to 100",
    ]


NUMBERS = st.none() | st.floats(-1e9, 1e9) | st.integers(0, 100).map(float)
STEPS = st.builds(
    PlannedStep,
    question=st.sampled_from(["a", "A", "b", "c", "d", "e", "f", "g"]),
    depends_on=st.none() | st.lists(st.integers(-2, 9), max_size=5),
    level=NUMBERS,
    credit=NUMBERS,
)


@given(st.lists(STEPS, min_size=1, max_size=12), st.integers(1, 6), NUMBERS)
def test_whatever_was_planned_is_fit_for_use(
    steps: list[PlannedStep], most: int, level: float | None
) -> None:
    whole, kept, _ = normalize_graded(GradedPlan(steps=steps, level=level), most, None)
    assert whole in range(1, 6)
    assert [step["index"] for step in kept] == list(range(len(kept)))
    assert 0 < len(kept) <= most
    assert len({step["question"].casefold() for step in kept}) == len(kept)
    for step in kept:
        assert step["depends_on"] == sorted(set(step["depends_on"]))
        assert all(0 <= needed < step["index"] for needed in step["depends_on"])
    assert_grades(kept)


@given(st.lists(NUMBERS, max_size=9), st.lists(NUMBERS, max_size=9), st.integers(1, 8))
def test_whatever_was_estimated_is_fit_for_use(
    levels: list[float | None], credits_: list[float | None], count: int
) -> None:
    found = Difficulty(levels=levels, credits=credits_)
    assert_grades(normalize_difficulty(found, settled(count), 4)[1])


def assert_grades(steps: list[SubQuestion]) -> None:
    shares = [step["credit"] for step in steps]
    assert all(share is not None and share >= 0 for share in shares)
    assert sum(share or 0 for share in shares) == pytest.approx(100, abs=0.01 * len(shares))
    assert all(step["level"] in range(1, 6) for step in steps)


def test_credits_that_are_off_by_rounding_are_nothing_to_speak_of() -> None:
    assert graded(Difficulty(level=1, levels=[1, 1, 1], credits=[33, 33, 33]), 3)[-1] == []
    assert len(graded(Difficulty(level=1, levels=[1, 1], credits=[49, 49]), 2)[-1]) == 1
