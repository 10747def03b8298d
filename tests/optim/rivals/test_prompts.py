"""Rivals that are one prompt: a style, and examples of it as earlier exchanges."""

from __future__ import annotations

import pytest

from optim.rivals.prompts import STYLE_OF
from pb_graph.methods import METHODS
from tests.support.chat_model import ScriptedChat
from tests.support.graphs import report_of


@pytest.mark.parametrize("name", STYLE_OF)
def test_a_rival_is_one_call_in_its_own_style(name: str) -> None:
    model = ScriptedChat()
    report = report_of(model, method=name, cutoff=300, style="answer")
    (call,) = model.calls
    shown = ["human", "ai"] * len(STYLE_OF[name].examples)
    assert [message.type for message in call.messages] == ["system", *shown, "human"]
    assert STYLE_OF[name].instruction in str(call.messages)
    assert report["usage"]["output_tokens"] == model.output_tokens <= report["limit"] == 300
    assert (report["budget"], report["level"]) == (None, None)
    known = METHODS[name]
    assert (known.plans, known.budgets, known.style) == (False, False, None)
