"""What a reply is charged where the server says nothing about its tokens."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from pb_graph.models.options import CallOptions
from pb_graph.models.reply import Reply, read_reply

FORTY = "word " * 32
"""About forty tokens, as they are estimated."""


def replied(cap: int, finish: str, text: str = FORTY) -> Reply:
    message = AIMessage(text, response_metadata={"finish_reason": finish})
    limits = CallOptions(cap=cap, timeout=1.0)
    return read_reply(message, [HumanMessage("?")], limits, seconds=0.5, model="m")[0]


def test_the_text_is_what_the_estimate_takes_it_for() -> None:
    reply = replied(1000, "stop")
    assert reply.tokens == 40
    assert not reply.charge["measured"]


@pytest.mark.parametrize(
    ("cap", "finish", "tokens"),
    [
        (1000, "stop", 40),
        (1000, "length", 1000),  # hidden thinking took the rest
        (30, "stop", 30),  # a little above the cap: the estimate's fault
        (30, "length", 30),
        (12, "length", 12),  # at 2 * 12 + 16 still so
        (11, "length", 40),  # far above it: the server took no notice of the cap
    ],
)
def test_an_estimate_is_brought_into_line_with_the_cap(cap: int, finish: str, tokens: int) -> None:
    assert replied(cap, finish).tokens == tokens


def test_a_text_far_beyond_its_cap_is_cut_off() -> None:
    reply = replied(10, "stop", "x" * 30_000)
    assert (len(reply.text), reply.finish) == (20_000, "length")


def test_a_reply_survives_a_journal() -> None:
    reply = replied(30, "length")
    assert Reply.from_json(json.loads(json.dumps(reply.to_json()))) == reply
