"""What a chat completion asks for, and how its answer ends, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pb_graph.errors import InputError
from pb_graph.serve.chat import ChatRequest

MESSAGES = [{"role": "user", "content": "6 * 7?"}]


def read(**fields: Any) -> ChatRequest:  # noqa: ANN401
    return ChatRequest.read(json.dumps({"model": "m", "messages": MESSAGES, **fields}).encode())


def test_of_two_totals_the_smaller_one_holds() -> None:
    assert read().total is None
    assert read(max_tokens=50).total == 50
    assert read(max_tokens=50, max_completion_tokens=80).total == 50


def test_fields_of_the_question_reach_the_graph_and_others_do_not() -> None:
    given = read(level=3, domain="sets", temperature=0.5, question="another").to_input()
    assert given.keys() == {"messages", "level", "domain"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2),
        ("tools", [{"type": "function"}]),
        ("response_format", {"type": "json_object"}),
        ("logprobs", True),
        ("stop", "x"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"'{name}' is not supported"):
        read(**{name: value})


def test_values_that_ask_for_nothing_are_accepted() -> None:
    asked = read(n=1, tools=[], stop=None, response_format={"type": "text"}, logprobs=False)
    assert asked.to_input()["messages"]
