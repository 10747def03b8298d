"""Focused chain of thought: a list of facts that is charged, then the answer from it alone."""

from __future__ import annotations

from optim.rivals.focused_cot import EXTRACT
from tests.support.chat_model import ScriptedChat, in_turn
from tests.support.graphs import QUESTION, report_of

FACTS = "<facts>\n<fact>3 pens cost $2</fact>\n</facts>\n<asked>pens for $14</asked>"


def test_the_answer_is_reasoned_from_the_list_alone() -> None:
    model = ScriptedChat(solve=in_turn(FACTS, "Final answer: 21"))
    report = report_of(model, method="focused_cot")
    listing, solving = model.calls
    assert listing.ask.endswith(EXTRACT)
    assert FACTS in solving.ask
    assert QUESTION["question"] not in solving.ask
    assert set(report["usage"]["by_node"]) == {"plan", "answer"}
    assert report["usage"]["output_tokens"] == model.output_tokens <= report["limit"]
