"""A budget as it really leaves for OpenAI, and for whoever speaks its protocol."""

from __future__ import annotations

from typing import Any

import pytest

from pb_graph.models.options import CallOptions, Thinking
from tests.support.payloads import ELSEWHERE, openai_body, openai_request

CAP = 77
LIMITS = CallOptions(CAP, 9.0)
FREE = CallOptions(CAP, 9.0, thinking="free")
SCHEMA = {"type": "object", "properties": {"level": {"type": "integer"}}}
CONSTRAINED = CallOptions(CAP, 9.0, SCHEMA)
CAP_NAMES = {"max_tokens", "max_completion_tokens", "max_output_tokens"}


def caps(body: dict[str, Any]) -> dict[str, int]:
    return {name: body[name] for name in CAP_NAMES & set(body)}


@pytest.mark.parametrize(
    "base", [None, "https://api.openai.com/v1", "https://eu.api.openai.com/v1"]
)
def test_openai_gets_the_new_name(base: str | None) -> None:
    assert caps(openai_body(LIMITS, base_url=base)) == {"max_completion_tokens": CAP}


def test_the_responses_api_has_a_name_of_its_own_and_gets_no_schema() -> None:
    body = openai_body(CONSTRAINED, use_responses_api=True)
    assert caps(body) == {"max_output_tokens": CAP}
    assert not {"text", "response_format"} & body.keys()


@pytest.mark.parametrize("name", ["gpt-5-mini", "o3-mini"])
def test_openais_models_behind_a_gateway_get_the_new_name(name: str) -> None:
    body = openai_body(LIMITS, model=name, base_url=ELSEWHERE)
    assert caps(body) == {"max_completion_tokens": CAP}
    assert "reasoning_effort" not in body


@pytest.mark.parametrize("thinking", ["free", "off"])
def test_of_an_unknown_server_nothing_is_asked_but_the_cap_by_its_old_name(
    thinking: Thinking,
) -> None:
    limits = CallOptions(CAP, 9.0, thinking=thinking)
    body = openai_body(limits, base_url=ELSEWHERE)
    assert body.keys() - {"messages", "model", "stream"} == {"max_tokens"}


def test_a_cap_of_the_callers_own_neither_widens_ours_nor_comes_beside_it() -> None:
    assert caps(openai_body(LIMITS, max_tokens=5000)) == {"max_completion_tokens": CAP}
    elsewhere = openai_body(LIMITS, max_tokens=5000, base_url=ELSEWHERE)
    assert caps(elsewhere) == {"max_tokens": CAP}


def test_the_callers_extra_body_stays() -> None:
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 5}
    body = openai_body(CONSTRAINED, base_url=ELSEWHERE, extra_body=extra)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["top_k"] == 5
    assert body["max_tokens"] == CAP
    assert extra == {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 5}


@pytest.mark.parametrize("base", [None, ELSEWHERE])
def test_the_schema_is_the_response_format_of_chat_completions(base: str | None) -> None:
    body = openai_body(CONSTRAINED, base_url=base)
    schema = {"name": "reply", "schema": SCHEMA}
    assert body["response_format"] == {"type": "json_schema", "json_schema": schema}
    assert set(caps(body).values()) == {CAP}


def test_the_timeout_is_ours_only_when_there_was_none() -> None:
    def seconds(**options: Any) -> float:  # noqa: ANN401
        request = openai_request(LIMITS, base_url=ELSEWHERE, **options)
        return float(request.extensions["timeout"]["read"])

    assert seconds() == 9.0
    assert seconds(timeout=3.0) == 3.0


@pytest.mark.parametrize(
    ("model", "cap", "level"),
    [
        ("gpt-5-mini", 200, "minimal"),
        ("gpt-5-mini", 2000, "low"),
        ("gpt-5-mini-2025-08-07", 200, "low"),
        ("gpt-5.1", 200, "none"),
        ("gpt-5.1", 2000, None),  # it may not think unasked
        ("gpt-5.5", 2000, "low"),
        ("gpt-5.5", 12_000, None),  # as much as by itself
        ("o3", 200, "low"),
        ("o4-mini-2025-04-16", 2000, "low"),
        ("gpt-5-pro", 200, None),
        ("gpt-4o", 200, None),
        ("some-model", 200, None),
    ],
)
def test_effort_is_what_fits_into_the_cap(model: str, cap: int, level: str | None) -> None:
    responses = openai_body(CallOptions(cap, 9.0), model=model, use_responses_api=True)
    assert responses.get("reasoning", {}).get("effort") == level
    assert "reasoning_effort" not in responses


def test_the_callers_effort_stands() -> None:
    body = openai_body(LIMITS, model="gpt-5-mini", reasoning_effort="high")
    assert body["reasoning_effort"] == "high"


def test_the_callers_reasoning_is_kept_and_only_completed() -> None:
    own = openai_body(LIMITS, model="gpt-5-mini", reasoning={"effort": "high"})
    assert own["reasoning"] == {"effort": "high"}
    completed = openai_body(LIMITS, model="gpt-5-mini", reasoning={"summary": "auto"})
    assert completed["reasoning"] == {"summary": "auto", "effort": "minimal"}


@pytest.mark.parametrize(
    ("own", "sent"),
    [
        ({"reasoning_effort": "high"}, ("reasoning_effort", "minimal")),
        ({"reasoning": {"effort": "high"}}, ("reasoning", {"effort": "minimal"})),
    ],
)
def test_without_thinking_the_effort_is_the_least(
    own: dict[str, Any], sent: tuple[str, object]
) -> None:
    body = openai_body(CallOptions(CAP, 9.0, thinking="off"), model="gpt-5-mini", **own)
    assert body[sent[0]] == sent[1]
