"""TALE-EP: an estimate that is charged, then the question with that number as the budget."""

from __future__ import annotations

from typing import Any

import pytest

from optim.rivals import tale_ep
from tests.support.chat_model import Call, HTTPError, Said, ScriptedChat
from tests.support.graphs import QUESTION, codes, report_of


def estimated(reply: Said, solved: Any = "one two Final answer: 42") -> ScriptedChat:  # noqa: ANN401
    """A model whose first call is the estimate."""

    def solve(call: Call) -> Said:
        if call.ask.endswith(tale_ep.ESTIMATE):
            return reply
        said: Said = solved(call) if callable(solved) else solved
        return said

    return ScriptedChat(solve=solve)


def test_the_estimate_is_said_as_the_budget() -> None:
    model = estimated("[[50]]")
    report = report_of(model, method="tale_ep", enforcement="prompt")
    assert [QUESTION["question"] in call.ask for call in model.calls] == [True, True]
    assert "less than 50 tokens" in model.calls[1].ask
    assert "50" not in model.calls[0].ask
    assert report["budget"] == 50
    spent = {name: part["output_tokens"] for name, part in report["usage"]["by_node"].items()}
    assert spent == {"estimate": 1, "answer": 5}
    assert report["usage"]["output_tokens"] == model.output_tokens <= report["limit"]


@pytest.mark.parametrize(
    ("reply", "code"), [("hard to say", "method"), (HTTPError(400), "call_failed")]
)
def test_without_an_estimate_the_question_is_asked_without_a_budget(reply: Said, code: str) -> None:
    model = estimated(reply)
    report = report_of(model, method="tale_ep", cutoff=500)
    assert report["answer"].endswith("42")
    assert report["budget"] is None
    assert "less than" not in model.calls[1].ask
    assert codes(report) == [code]


@pytest.mark.parametrize(
    ("reply", "budget"), [("Budget: [[ 1,200 ]] tokens", 1200), ("I think 30 to 40", 40)]
)
def test_the_number_is_read_as_models_write_it(reply: str, budget: int) -> None:
    assert report_of(estimated(reply), method="tale_ep", enforcement="prompt")["budget"] == budget
