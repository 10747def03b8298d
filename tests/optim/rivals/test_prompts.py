"""Rivals that are one prompt: a style, and examples of it as earlier exchanges."""

from __future__ import annotations

import pytest

from optim.rivals.prompts import STYLE_OF
from pb_graph.methods import METHODS
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import QUESTION, report_of


@pytest.mark.parametrize("name", STYLE_OF)
def test_it_is_one_call_in_its_own_style(name: str) -> None:
    model = ScriptedChat()
    report = report_of(model, method=name, cutoff=300, style="steps")
    (call,) = model.calls
    shown = ["human", "ai"] * len(STYLE_OF[name].examples)
    assert [message.type for message in call.messages] == ["system", *shown, "human"]
    assert STYLE_OF[name].instruction in str(call.messages)
    assert report["usage"]["output_tokens"] == model.output_tokens <= report["ceiling"] == 300
    assert (report["budget"], report["level"]) == (None, None)
    known = METHODS[name]
    assert (known.plans, known.budgets, known.style) == (False, False, None)


def test_a_budget_that_is_set_bounds_it() -> None:
    model = ScriptedChat(solve="and so on " * 300)
    report = report_of(model, QUESTION | {"budget": 60}, method="concise", enforcement="cap")
    assert model.output_tokens == report["ceiling"] == report["budget"] == 60
    assert "60" not in str(model.calls[0].messages)
