"""The style ``calculation``: what the model writes is worked out exactly, and never run."""

from __future__ import annotations

import pytest

import optim.methods  # noqa: F401 -- registers program_aided
from pb_graph.styles import evaluate
from tests.support.chat_model import Call, Said, ScriptedChat
from tests.support.graphs import QUESTION, report_of

ARITHMETIC = QUESTION | {"domain": "arithmetic"}
PENS = "pens = 14 / 2 * 3\nanswer = pens"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("answer = 6 * 7", "42"),
        ("# a comment\na = 1 / 3\nb = a * 3  # one\n", "1"),
        ("a = 0.1 + 0.2", "0.3"),
        ("x = 7 // 2 + 7 % 2\nanswer = -x ** 2", "-16"),
        ("import math\nx = 3\nx *= 10\nanswer = math.ceil(x / 8) + round(2.345, 2)", "6.34"),
    ],
)
def test_assignments_are_worked_out_exactly(text: str, value: str) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text", ["x = 1 / 0", "x = 9 ** 9 ** 9", "x = 1 / 10**8", "x = open('y')", "2"]
)
def test_all_else_has_no_result(text: str) -> None:
    assert evaluate(text) is None


@pytest.mark.parametrize("plan_from", [1, 4])
def test_the_default_works_out_arithmetic_with_and_without_a_plan(plan_from: int) -> None:
    model = ScriptedChat(level="L2", solve=f"So:\n```\n{PENS}\nprint(answer)\n```\nDone.")
    one_call = {"execution": "single_pass", "plan_from": plan_from}
    report = report_of(model, ARITHMETIC, style="auto", **one_call)
    assert report["answer"] == f"```python\n{PENS}\nprint(answer)\n```\n\nFinal answer: 21"
    assert (report["style"], report["result"]) == ("calculation", "21")


@pytest.mark.parametrize("method", ["plan_and_budget", "vanilla", "program_aided"])
def test_without_a_result_the_model_is_asked_for_it(method: str) -> None:
    def solve(call: Call) -> Said:
        return "Final answer: 42" if "Stop here" in call.ask else "I would rather talk."

    model = ScriptedChat(level="L2", solve=solve)
    report = report_of(model, ARITHMETIC, method=method, style="calculation", plan_from=4)
    assert report["answer"] == "I would rather talk.\n\nFinal answer: 42"
    assert report["usage"]["output_tokens"] == model.output_tokens
