"""Arithmetic that a model wrote: exact, never run, and of any text a quick verdict."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pb_graph.arithmetic import result_of


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("answer = 20 - 5 * 3", 5),
        ("# pears\nbundles = 20 / 4  # of 4\n\nanswer = bundles * 3", 15),
        ("```python\nimport math\ntotal = 7 // 2 + 7 % 4\nanswer = total\nprint(answer)\n```", 6),
        ("a = 3\na += 2\na *= -a\nanswer = +a", -25),
        ("price = 1.20 * 50\nprofit = price - 50", 10),  # the last name, where none is `answer`
        ("answer = 2\nrest = 5", 2),
        ("answer = 0.1 + 0.2 - 0.3", 0),  # exact, as no float is
        ("answer = 2 ** 10 / 2 ** -1", 2048),
        ("from math import ceil\nanswer = ceil(75 / 8) + math.floor(7 / 2)", 13),
        ("answer = sqrt(9 / 4) + 16 ** 0.5 + 4 ** (1 / 2)", Fraction(15, 2)),
        ("answer = comb(5, 2) + factorial(3) + perm(3, 2)", 22),
        ("answer = gcd(12, 18) + lcm(4, 6) + max(1, 2) + min(1, 2) + abs(-1)", 22),
        ("answer = round(2.345, 2) + round(7 / 2) + int(7 / 2)", Fraction(234, 100) + 7),
        ("größe = 3\nanswer = größe ** 2", 9),
        ("answer = 1_100 * (1 - 20 / 100)", 880),
    ],
)
def test_assignments_are_worked_out_exactly(text: str, result: Fraction | int) -> None:
    assert result_of(text) == result


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a remark",
        "The answer is 5.",
        "answer = pears * 2",
        "answer = 1 / 0",
        "answer = 5 % 0",
        "answer = sqrt(2)",
        "answer = sqrt(-4)",
        "answer = (-8) ** 0.5",
        "answer = 2 ** 0.3",
        "answer = 1, 2",
        "answer = [1, 2][0]",
        "answer = True + 1",
        "answer = 2j",
        "answer = '5'",
        "answer = f'{5}'",
        "answer = 5 if 1 else 2",
        "answer = 1 < 2",
        "answer = ~5 | 3",
        "answer = comb(5)",
        "answer = comb(5, 1/2)",
        "answer = sum(range(5))",
        "answer = __import__('os').getcwd()",
        "answer = (1).__class__",
        "answer = exit(0)",
        "answer = os.comb(5, 2)",
        "answer = round(5, ndigits=1)",
        "a, b = 1, 2",
        "a = b = 2",
        "a: int = 2",
        "for month in range(2, 5):\n    january = 2",
        "def solution():\n    return 5",
        "answer = 5\nso it is 5",
        "answer = 5; answer = 6",
        "answer = $5",
        "answer = 9 ** 9 ** 9",
        "answer = 9 ** -9999",
        "answer = factorial(10 ** 12)",
        "answer = comb(10 ** 12, 10 ** 11)",
        "answer = 1e400",
        "answer = 10 ** 600 * 10 ** 600",
        f"answer = {'(' * 140}1{')' * 140}1",
        f"answer = {'9' * 400}",
        "x = 2\n" * 101,
    ],
)
def test_all_else_has_no_result(text: str) -> None:
    assert result_of(text) is None


def test_a_figure_that_grows_from_line_to_line_is_given_up() -> None:
    # Worked out, it would have 2 to the power of 90 digits: this test would not end.
    assert result_of("a = 99999999\n" + "a *= a\n" * 90) is None
    assert result_of("\n".join(["a = 7", *["a = a * a + a"] * 90])) is None


@given(st.text(max_size=400))
def test_any_text_has_a_result_or_none(text: str) -> None:
    assert isinstance(result_of(text), Fraction | None)


@given(st.text(alphabet="answer=01 2.+-*/%()#\n,", max_size=400))
def test_any_text_of_figures_has_a_result_or_none(text: str) -> None:
    assert isinstance(result_of(text), Fraction | None)


_NUMBERS = st.integers(0, 999).map(str) | st.decimals(0, 99, places=2).map(str)
_TERMS = st.recursive(
    _NUMBERS,
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), inner),
    max_leaves=6,
)


@given(_TERMS, _TERMS)
def test_it_agrees_with_python_on_fractions(first: str, second: str) -> None:
    exactly = re.sub(r"[\d.]+", lambda number: f"Fraction('{number[0]}')", f"{first} - {second}")
    expected = eval(exactly, {"Fraction": Fraction})  # noqa: S307 -- our own expression
    assert result_of(f"part = {first}\nanswer = part - {second}") == expected
