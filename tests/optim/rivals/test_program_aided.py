"""Program-aided: a calculation is worked out exactly, and never run."""

from __future__ import annotations

from fractions import Fraction

import pytest

from optim.rivals.program_aided import evaluate
from tests.support.chat_model import Call, Said, ScriptedChat
from tests.support.graphs import report_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("answer = 6 * 7", 42),
        ("# a comment\na = 1 / 3\nb = a * 3  # one\n", 1),
        ("a = 0.1 + 0.2", Fraction(3, 10)),
        ("x = 7 // 2 + 7 % 2\nanswer = -x ** 2", -16),
        ("answer = ceil(75 / 8) + floor(1.5) + max(1, 2) + round(2.345, 2)", Fraction(767, 50)),
    ],
)
def test_assignments_are_worked_out_exactly(text: str, value: Fraction) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "answer = 1 / 0",
        "answer = 9 ** 9 ** 9",
        "answer = __import__('os')",
        "for i in range(3): pass",
    ],
)
def test_all_else_has_no_result(text: str) -> None:
    assert evaluate(text) is None


def test_the_result_stands_below_the_calculation() -> None:
    report = report_of(
        ScriptedChat(solve="pens = 14 / 2 * 3\nanswer = pens"), method="program_aided"
    )
    assert report["answer"].endswith("answer = pens\n```\n\nFinal answer: 21")
    assert report["usage"]["by_node"].keys() == {"calculation"}


def test_what_cannot_be_worked_out_is_asked_in_prose_and_both_are_charged() -> None:
    def solve(call: Call) -> Said:
        return "Final answer: 42" if "step by step" in call.ask else "I would rather talk."

    model = ScriptedChat(solve=solve)
    report = report_of(model, method="program_aided")
    assert report["answer"] == "Final answer: 42"
    assert report["usage"]["output_tokens"] == model.output_tokens == 4 + 3
