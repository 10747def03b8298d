"""A planned sub-question asks; what it states, and what its hint gives away, is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.planner.wording import asking_part, key_of, names_a_value, numbers_in

GIVEN = numbers_in("A shop sells pens at 3 for $2. How many does a dozen cost, or fourteen, or 7?")


@pytest.mark.parametrize(
    "asked",
    [
        "How many groups of 5 pens are there?",
        "Solve x^2 - 5x + 6 = 0",
        "Find x such that 2x + 9 = 15.",
        "Solve the equation: 2x + 4 = 18",
        "If x = 5, what is y?",
        "Since the triangle is right, find the hypotenuse.",
        "Let f(x) = 4x; compute f(9).",
        "Area of the triangle",
        "The number of groups of 8 pens",
        "Evaluate f at x = 5",
        "Multiply 7 by 3 to get the number of pens",
        "What is $\\\\frac{1}{2} + \\\\frac{1}{3}$?",
        "Is 91 a prime?",
        "Use the formula A = pi r^2.",
        "The price is $2 for 3 pens. What do 12 cost?",
    ],
)
def test_what_asks_stays_as_it_is(asked: str) -> None:
    assert asking_part(asked, GIVEN) == asked


@pytest.mark.parametrize(
    "stated",
    [
        "x = 5.",
        "The area is 12 cm",
        "The total is 3 * 4 = 12 dollars.",
        "Since 2 + 2 = 4, we get 4.",
        "There are 21 pens.",
        "We have twenty pens left.",
        "The probability is \\frac{1}{2}.",
        "The price is approximately \u20ac12.50",
        "Therefore, the function is increasing.",
        "Total pens = 7 * 3 = 21",
        "21",
    ],
)
def test_what_only_states_asks_nothing(stated: str) -> None:
    assert asking_part(stated, GIVEN) == ""


@pytest.mark.parametrize(
    ("mixed", "asked"),
    [
        ("What is 3 * 4? It is 12.", "What is 3 * 4?"),
        ("How many groups? 14 / 2 = 7, so 21", "How many groups?"),
        ("Number of pens: 7 * 3 = 21", "Number of pens"),
        ("Calculate 7 * 3 = 21 and halve it", "Calculate 7 * 3 and halve it"),
        ("Find the area, which is 15.", "Find the area"),
        ("Find the area (15)", "Find the area"),
        ("How many pens in 7 groups -> 21", "How many pens in 7 groups"),
        ("The width is 9 cm. What is the area?", "What is the area?"),
    ],
)
def test_of_both_what_asks_is_kept(mixed: str, asked: str) -> None:
    assert asking_part(mixed, GIVEN) == asked


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is the area of the square?", "Find the area of the square."),
        ("Find the value of x.", "what is X"),
        ("Next, compute x+1", "Compute x + 1."),
        ("What is 7 \u2212 3?", "What is 7-3"),
    ],
)
def test_the_same_asked_in_other_words_has_the_same_key(one: str, other: str) -> None:
    assert key_of(one) == key_of(other) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is x + 1?", "What is x - 1?"),
        ("What is f(x) + 1?", "What is f(x + 1)?"),
        ("How far is it from A to B?", "How far is it from B to A?"),
        ("Find the first root", "Find the second root"),
        ("Find the first root", "Find the root"),
        ("What is 1.5 times x?", "What is 15 times x?"),
    ],
)
def test_what_asks_for_something_else_has_another(one: str, other: str) -> None:
    assert key_of(one) != key_of(other)


@pytest.mark.parametrize("empty", ["", "?", "Sub-question", "Step:", "N/A", "none."])
def test_what_asks_nothing_has_none(empty: str) -> None:
    assert key_of(empty) == ""


@pytest.mark.parametrize(
    ("hint", "gives_away"),
    [
        ("divide by the price of a group", False),
        ("a^2 + b^2 = c^2", False),
        ("multiply by 3", False),
        ("use the 14 dollars and the dozen, 12", False),
        ("subtract 2.0", False),
        ("14 / 2 = 7", True),
        ("x = 3", True),
        ("there are 21", True),
        ("it is about 1,000", True),
    ],
)
def test_a_hint_names_a_way_not_a_value(hint: str, gives_away: bool) -> None:
    assert names_a_value(hint, GIVEN) == gives_away


@given(st.text(st.sampled_from("ax12 =*+-/().,?!$\\\\:>\u2212 is find which"), max_size=200))
def test_whatever_is_written_nothing_is_made_up(text: str) -> None:
    assert numbers_in(asking_part(text, frozenset())) <= numbers_in(text) | numbers_in(
        text.replace(" ", "")
    )
    assert key_of(text) == key_of(text.upper())
