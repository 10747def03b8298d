"""How likely other tokens were: asked for in OpenAI's protocol, read as servers tell it."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph.models.caps import CapPolicy, Limits, llama_cpp, sglang, vllm
from pb_graph.models.client import ChatClient
from pb_graph.models.usage import confidence_of, likely_tokens
from pb_graph.planner.parsing import expected_level
from pb_graph.types import Purpose
from tests.support.payloads import ELSEWHERE, openai_body

ASK = [HumanMessage("How hard?")]
LIMITS = Limits(2, 5.0, probabilities=20)
TOLD = {"logprobs": True, "top_logprobs": 20}
DEEPSEEK = "https://api.deepseek.com/v1"


def told(*tokens: dict[str, float]) -> dict[str, Any]:
    """Logprobs as llama.cpp, vLLM and OpenAI write them; of each token the first was chosen."""
    content = []
    for token in tokens:
        rows = [{"token": t, "logprob": math.log(p), "bytes": None} for t, p in token.items()]
        content.append({**rows[0], "top_logprobs": rows})
    return {"content": content, "refusal": None}


@pytest.mark.parametrize(
    "options",
    [
        {"model": "gpt-4.1-mini"},
        {"model": "gpt-4.1-mini", "base_url": ELSEWHERE},
        {"model": "qwen", "base_url": ELSEWHERE},
        {"model": "deepseek-v4-flash", "base_url": DEEPSEEK},
        *({"model": "m", "base_url": ELSEWHERE, "policy": it} for it in (vllm, sglang, llama_cpp)),
    ],
)
def test_they_are_asked_for_only_where_they_are_wanted(options: dict[str, Any]) -> None:
    wanted = openai_body(LIMITS, **options)
    assert {name: wanted.get(name) for name in TOLD} == TOLD
    assert not TOLD.keys() & openai_body(Limits(2, 5.0), **options).keys()


@pytest.mark.parametrize("policy", [None, llama_cpp])
def test_a_reply_has_them_by_token(policy: CapPolicy | None) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        choice = {
            "index": 0,
            "finish_reason": "length",
            "message": {"role": "assistant", "content": "4"},
            "logprobs": told({"4": 0.5, "5": 0.25}) if asked.get("logprobs") else None,
        }
        usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
        whole = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
        return httpx.Response(200, json=whole | {"choices": [choice], "usage": usage})

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        model = ChatOpenAI(
            model="m", base_url=ELSEWHERE, api_key=SecretStr("sk-x"), http_client=http
        )
        client = ChatClient(model, policy)
        (token,) = client.call(ASK, LIMITS, Purpose("estimate")).likely
        assert token == pytest.approx({"4": 0.5, "5": 0.25})
        assert client.call(ASK, Limits(2, 5.0), Purpose("estimate")).likely == ()


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        [],
        "x",
        {"content": None},
        {"content": [3]},
        {"content": [{"token": "4"}]},
        {"content": [{"token": "4", "logprob": "high"}]},
        {"content": [{"token": [], "logprob": 0}]},
    ],
    ids=repr,
)
def test_what_cannot_be_read_is_not_there(logprobs: object) -> None:
    message = AIMessage("4", response_metadata={"logprobs": logprobs})
    assert likely_tokens(message) == []


def test_no_more_is_read_than_is_of_use() -> None:
    many = told(*[{f"{n}": 1e-3 for n in range(300)}] * 50)
    found = likely_tokens(AIMessage("0", response_metadata={"logprobs": many}))
    assert len(found) <= 4
    assert all(len(token) <= 21 for token in found)


@pytest.mark.parametrize(
    ("likely", "level"),
    [
        ([], None),
        ([{"4": 1.0}], 4),
        ([{"1": 0.5, "2": 0.5}], 1.5),
        ([{"3": 0.4, " 3": 0.2, "5": 0.2, "x": 0.2}], 3.5),
        ([{" ": 0.9, "5": 0.1}, {"2": 0.75, "4": 0.25}], 2.5),
        ([{"3": 0.4, "Level": 0.6}], None),
        ([{"0": 0.5, "12": 0.4}], None),
    ],
)
def test_a_level_is_the_mean_of_the_five_where_one_is_likely(
    likely: list[dict[str, float]], level: float | None
) -> None:
    assert expected_level(likely) == (None if level is None else pytest.approx(level))


@pytest.mark.parametrize(
    ("tokens", "confidence"),
    [
        ([{"So": 0.3}, {" 4": 0.8}, {"2": 0.5}, {".": 0.2}], 0.4),
        ([{"Yes": 0.5}, {".": 0.5}], 0.25),
        ([{"²": 0.5}, {"x": 0.1}], 0.5),
        ([], None),
    ],
)
def test_a_reply_is_as_sure_as_its_figures(
    tokens: list[dict[str, float]], confidence: float | None
) -> None:
    reply = AIMessage("…", response_metadata={"logprobs": told(*tokens)})
    assert confidence_of(reply) == (confidence and pytest.approx(confidence))


@pytest.mark.parametrize(
    "row", [{}, {"token": "4"}, {"token": 4, "logprob": 0}, {"token": "4", "logprob": None}]
)
def test_probabilities_in_another_form_are_as_good_as_none(row: dict[str, Any]) -> None:
    assert confidence_of(AIMessage("4", response_metadata={"logprobs": {"content": [row]}})) is None
