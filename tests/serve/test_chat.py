"""What a chat completion asks for: input, total, and the settings behind the model's name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pb_graph.errors import InputError
from pb_graph.serve.app import ChatRequest

MESSAGES = [{"role": "user", "content": "6 * 7?"}]


def read(**fields: Any) -> ChatRequest:  # noqa: ANN401
    return ChatRequest.read(json.dumps({"model": "m", "messages": MESSAGES, **fields}).encode())


def chosen(model: str) -> dict[str, object]:
    return read(model=model).to_settings().model_dump(exclude_unset=True)


def test_of_two_totals_the_smaller_one_holds() -> None:
    assert read(max_tokens=None).limit is None
    assert read(max_tokens=50).limit == 50
    assert read(max_tokens=50, max_completion_tokens=80).limit == 50
    assert read(budget=5000).limit == 5000
    assert "budget" not in read(budget=5000).to_input()


def test_fields_of_the_question_reach_the_graph_and_others_do_not() -> None:
    given = read(level=3, domain="sets", temperature=0.5, question="another").to_input()
    assert given.keys() == {"messages", "level", "domain"}


def test_earlier_turns_are_messages() -> None:
    said = [
        {"role": "developer", "content": "Be curt."},
        {"role": "user", "content": [{"type": "text", "text": "A pen costs 3 guilders."}]},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "And four pens?"},
    ]
    given = read(messages=said).to_input()["messages"]
    assert [message.type for message in given] == ["system", "human", "ai", "human"]
    with pytest.raises(InputError, match="protocol"):
        read(messages=[{"role": "tool", "content": "x"}]).to_input()


@pytest.mark.parametrize(
    ("name", "value", "harmless"),
    [
        ("n", 2, 1),
        ("n", 0, None),
        ("tools", [{"type": "function"}], []),
        ("response_format", {"type": "json_object"}, None),
        ("stop", "x", None),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    name: str, value: object, harmless: object
) -> None:
    assert read(**{name: harmless}).to_input()["messages"]
    with pytest.raises(InputError, match=rf"\b{name}\b"):
        read(**{name: value})


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"model": "m", "messages": []}'])
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(InputError):
        ChatRequest.read(body)


@pytest.mark.parametrize("name", ["gpt-5-mini", "local:qwen2.5-coder-1.5b", "meta/llama-3:free"])
def test_any_name_but_a_methods_stands_for_the_settings_of_the_server(name: str) -> None:
    assert chosen("vanilla") == {"method": "vanilla"}
    assert chosen(name) == {}
    with pytest.raises(InputError, match="did you mean 'vanilla'"):
        chosen("vanila")
