"""Answers that nobody could work out are known by their size."""

from __future__ import annotations

import pytest

from optim.datasets import Question
from optim.scorers.base import ScorerError
from optim.scorers.magnitude import is_beyond_computing
from optim.scorers.mathematics import MathScorer

BOMBS = [
    r"\frac{9^{9^{9}}}{3}",
    r"2^{10^{10}}-1",
    r"\binom{10^9}{5\cdot 10^8}",
    r"-9^{9^{9}}",
    r"\sqrt{9^{9^{9}}}",
    r"\sum_{i=1}^{10^{10}} i!",
    r"\prod_{k=1}^{10^8} k",
    r"\left(\left(10^9\right)!\right)!",
    r"x=9^{9^{9}}",
    r"1.5^{9^{9}}",
    r"\log(9^{9^{9}})",
    r"10^{-10^{10}}",
    r"(x+1)^{99999}",
    r"20!!!!",
    r"\lfloor 10^{10^{8}}/7 \rfloor",
]
SOUND = [
    r"2^{2024}-1",
    r"10^{-34}",
    r"(x+1)^{2023}",
    r"x^{10^{10}}",
    r"100!",
    r"\binom{10^9}{2}",
    r"\binom{2024}{1012}",
    r"\sum_{i=1}^{2024} i^2",
    r"\frac{1}{2}^{n-1}",
    r"3.5^2 + 2^{0.5}",
    r"^",
    r"!",
    r"}^{",
    r"\binom",
    r"\sum^",
    r"\sum_",
    "(" * 50,
    "2^" * 3000,
]


@pytest.mark.parametrize("text", BOMBS)
def test_what_is_beyond_computing_is_refused_before_it_is_tried(text: str) -> None:
    assert is_beyond_computing(text)
    question = Question("1", "How many?", targets=("5",))
    with pytest.raises(ScorerError, match="too large to be worked out"):
        MathScorer().score(rf"It is \boxed{{{text}}}.", question)


@pytest.mark.parametrize("text", SOUND)
def test_everything_else_is_left_to_the_comparison(text: str) -> None:
    assert not is_beyond_computing(text)
