"""Where a text goes round in circles, and where it only looks like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.models.repetition import SEEN, repeated

LOOP = "We can simplify this by factoring. "
ENUMERATION = "".join(f"Step {n}: {n} squared is {n * n}, which is no prime.\n" for n in range(60))


@given(st.text(max_size=400), st.text(min_size=1, max_size=600), st.integers(4, 12))
def test_a_loop_is_found_and_all_of_it_is_in_what_is_left(
    before: str, unit: str, times: int
) -> None:
    times = max(times, -(-240 // len(unit)))
    text = before + unit * times
    again = repeated(text)
    assert again >= len(unit) * (times - 1)
    kept = len(text) - again
    assert any(text[kept - p : -p] == text[kept:] for p in range(1, min(kept, len(unit)) + 1))


@given(st.text(max_size=300), st.integers(0, 100))
def test_a_text_is_no_loop_for_what_stands_before_it(before: str, cut: int) -> None:
    assert repeated(before + ENUMERATION[: len(ENUMERATION) - cut]) == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        LOOP * 3,
        "no " * 79,
        f"| value |\n|{'-' * 100}|\n",
        "So 1 / 3 = 0." + "3" * 200,
        LOOP * 40 + "So the answer is 42.",
        ENUMERATION[:801] * 4,
        "".join(f"{LOOP}({n}) " for n in range(40)),
    ],
)
def test_a_few_times_the_same_is_no_loop(text: str) -> None:
    assert repeated(text) == 0


def test_the_end_of_a_text_tells_whether_it_loops() -> None:
    unit = "".join(f"{n} is odd. " for n in range(80))[:800]
    text = ENUMERATION * 3 + unit * 6
    assert repeated(text) >= 5 * 800
    assert repeated(text[-SEEN:]) == 3 * 800
    assert repeated(ENUMERATION + "x" * 5000) == 4999
