"""What a provider answers: tokens, ending and text, or an error that says what to do."""
# ruff: noqa: ANN401 -- what providers report

from __future__ import annotations

import json
import pickle
import re
from enum import Enum
from json import JSONDecodeError
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from langchain_core.exceptions import ContextOverflowError, ModelRateLimitError
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph import BudgetUsedUpError, ModelCallError, NoAnswerError, PlanAndBudgetError
from pb_graph.budget.bill import Bill
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions
from pb_graph.models.provider_errors import (
    fault_of,
    redact,
    secrets_of,
    status_of,
    to_model_call_error,
)
from pb_graph.models.reply import BLOCKING, Reply, _tokens_of, finish_of, run_sync
from tests.support.chat_model import HTTPError, ScriptedChat

PROMPT = [HumanMessage("What is 6 * 7? " * 20)]
FORTY = "word " * 32
"""About forty tokens, as they are estimated."""
Ending = Enum("Ending", "STOP")


def usage(output: int, **details: Any) -> UsageMetadata:
    sums: Any = {"input_tokens": 30, "output_tokens": output, "total_tokens": 30 + output}
    whole: UsageMetadata = sums | details
    return whole


def test_what_a_provider_reports_is_taken_and_the_details_are_parts_of_it() -> None:
    read: Any = {"cache_read": 2, "cache_creation": 0, "ephemeral_5m_input_tokens": 5}
    read["ephemeral_1h_input_tokens"] = 20  # told apart, as its price is
    details = usage(12, output_token_details={"reasoning": 9}, input_token_details=read)
    bill = _tokens_of(AIMessage("42", usage_metadata=details), PROMPT, 1000, "m")
    assert bill == Bill("m", input=30, output=12, reasoning=9, cached=2, written=25, lasting=20)
    assert Bill.of("m", bill.usage()) == bill


def replied(cap: int, finish: str, content: Any = FORTY) -> Reply:
    message = AIMessage(content, response_metadata={"finish_reason": finish})
    client = ChatClient(FakeMessagesListChatModel(responses=[message]))
    return run_sync(client.call(PROMPT, CallOptions(cap), BLOCKING))


@pytest.mark.parametrize(
    ("cap", "finish", "tokens"),
    [
        (1000, "stop", 40),
        (1000, "length", 1000),  # hidden thinking took the rest
        (30, "stop", 30),  # a little above the cap: the estimate's fault
        (11, "length", 40),  # far above it: the server took no notice of the cap
    ],
)
def test_an_estimate_is_brought_into_line_with_the_cap(cap: int, finish: str, tokens: int) -> None:
    assert replied(cap, finish).tokens == tokens


THOUGHT = {"additional_kwargs": {"reasoning_content": "word " * 200}}


@pytest.mark.parametrize(
    ("told", "message", "tokens", "is_measured"),
    [
        (usage(10, output_token_details={"reasoning": 300}), {}, 310, True),
        (usage(100, output_token_details={"priority_reasoning": 95}), {}, 195, True),
        (usage(12, total_tokens=30 + 12 + 60), {}, 72, True),  # reasoning is in the total alone
        (usage(20, total_tokens=0), {}, 20, True),
        (usage(23.0), {}, 23, True),  # type: ignore[arg-type]
        (usage(23.5), {}, 40, False),  # type: ignore[arg-type]
        (usage(float("nan")), {}, 40, False),  # type: ignore[arg-type]
        ({"input_tokens": "3", "output_tokens": "many", "total_tokens": "?"}, {}, 40, False),
        (usage(0), {}, 40, False),
        ({"input_tokens": True, "output_tokens": True, "total_tokens": 2}, {}, 40, False),
        (usage(3), {}, 40, False),  # of the first chunk
        (usage(40, input_tokens=0, total_tokens=40), {}, 40, False),  # a stream lost its beginning
        (usage(40), THOUGHT, 290, False),  # a gateway left the thought out
        (usage(0), {"content": ""}, 0, True),
        (None, {"content": ""}, 0, False),
        (None, {}, 40, False),
        (None, {"content": "", **THOUGHT}, 250, False),
        (None, {"response_metadata": {"eval_count": 250}}, 250, False),
        (None, {"response_metadata": {"meta": {"billed_units": {"output_tokens": 99}}}}, 99, False),
        (None, {"response_metadata": {"usage": {"candidatesTokenCount": 99}}}, 99, False),
        (None, {"content": "预算" * 100}, 200, False),
        (None, {"content": "🙂" * 100}, 150, False),
    ],
)
def test_usage_is_a_plausible_whole_number_else_estimated_from_all_that_was_written(
    told: Any, message: dict[str, Any], tokens: int, *, is_measured: bool
) -> None:
    reply = AIMessage(**{"content": FORTY, **message})
    reply.usage_metadata = told
    bill = _tokens_of(reply, PROMPT, 1000, "m")
    assert (bill.output, bill.is_measured) == (tokens, is_measured)
    assert bill.input == 30 or (not is_measured and 60 <= bill.input <= 100)


def test_a_reply_survives_a_journal() -> None:
    reply = replied(30, "length")
    assert Reply.from_json(json.loads(json.dumps(reply.to_json()))) == reply


@pytest.mark.parametrize(
    ("metadata", "finish"),
    [
        ({"finish_reason": "length"}, "length"),
        ({"finish_reason": "content_filter"}, "filter"),
        ({"status": "completed", "incomplete_details": None, "model_provider": "openai"}, "stop"),
        ({"stopReason": "tool_use"}, "stop"),
        ({"completionReason": "FINISH"}, "stop"),
        ({"finish_details": {"type": "max_tokens"}}, "length"),
        ({"finish_reason": Ending.STOP}, "stop"),
        ({"status": "failed", "model_provider": "openai"}, "length"),
        ({"status": 200}, "stop"),
        ({"prompt_feedback": {"block_reason": "SAFETY"}}, "filter"),
        ({"finish_reason": "STOPSTOP"}, "stop"),  # one for each chunk of a stream
        ({"finish_reason": "STOPMAX_TOKENS"}, "length"),
        ({"model_provider": "openai"}, "length"),  # a stream that broke off
        ({}, "stop"),
    ],
)
def test_endings_have_one_vocabulary(metadata: dict[str, Any], finish: str) -> None:
    assert finish_of(AIMessage("x", response_metadata=metadata)) == finish


@pytest.mark.parametrize(
    ("content", "visible"),
    [
        ("<think>6 * 7 is 42</think>\n\n42", "42"),
        ([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "42"}], "42"),
    ],
)
def test_only_what_is_meant_to_be_seen_is_visible(content: Any, visible: str) -> None:
    assert replied(1000, "stop", content).text == visible


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (HTTPError(400), "context"),
        (HTTPError(401), "API key"),
        (HTTPError(402), "top it up"),
        (HTTPError(404), "name and the base URL"),
        (HTTPError(422), "refused"),
        (HTTPError(429), "rate limit"),
        (HTTPError(503), "try again later"),
        (TimeoutError(), r"Settings\.timeout"),
        (ConnectionError("refused"), "running and reachable"),
        (JSONDecodeError("Expecting value", "", 0), "base URL"),
        (TypeError("a mistake in the class of a user's model"), "if it is yours"),
        (HTTPError(429, "{'code': 'insufficient_quota'}"), "top it up"),
    ],
    ids=repr,
)
def test_an_error_says_what_happened_and_what_to_do(error: Exception, remedy: str) -> None:
    explained = to_model_call_error(error, ScriptedChat())
    assert explained.status == getattr(error, "status_code", None)
    assert re.search(rf"{type(error).__name__}.*{remedy}", str(explained))


THROTTLED = ClientError({"ResponseMetadata": {"HTTPStatusCode": 429}}, "Converse")  # type: ignore[arg-type]


def never_sent() -> Exception:
    error = ConnectionError("Connection error.")
    error.__cause__ = type("ConnectError", (Exception,), {})("certificate has expired")
    return error


def test_the_first_cause_is_told_where_clients_repeat_each_other() -> None:
    said = str(to_model_call_error(never_sent(), ScriptedChat()))
    assert (said.count("Connection error."), said.count("certificate has expired")) == (1, 1)
    long = str(to_model_call_error(ValueError("word\n" * 200_000), ScriptedChat()))
    assert len(long) < 500
    assert "\n" not in long


@pytest.mark.parametrize(
    ("error", "is_tried_again", "is_billed"),
    [
        (HTTPError(400), False, False),
        (HTTPError(429), True, False),
        (HTTPError(429, "{'code': 'insufficient_quota'}"), False, False),
        (HTTPError(503), True, False),
        (HTTPError(501), False, False),
        (HTTPError(529), True, False),
        (HTTPError(500), True, True),
        (HTTPError(504), True, True),
        (RuntimeError("raised by a callback after the reply"), False, True),
        (ModelRateLimitError("slow down"), True, False),
        (ContextOverflowError("too long"), False, False),
        (THROTTLED, True, False),
        (NoCredentialsError(), False, False),
        (never_sent(), True, False),
        (ConnectionRefusedError(), True, False),
        (ConnectionResetError(), True, True),
        (TimeoutError(), True, True),
        (JSONDecodeError("Expecting value", "", 0), True, True),
        (KeyError("choices"), False, True),
        (ValueError("a mistake before the call"), False, False),
    ],
    ids=repr,
)
def test_an_attempt_may_be_billed_once_the_request_is_on_its_way(
    error: Exception, *, is_tried_again: bool, is_billed: bool
) -> None:
    assert fault_of(error)[:2] == (is_tried_again, is_billed)


def with_status(status: int) -> Exception:
    """Return an error with a response, as the cause of one of LangChain's."""
    error = ModelRateLimitError("slow down")
    error.__cause__ = ValueError("from the server")
    error.__cause__.response = SimpleNamespace(status_code=status)  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (HTTPError(418), 418),
        (with_status(502), 502),
        (ValueError({"code": 502, "message": "OpenRouter's, in a response that says 200"}), 502),
    ],
)
def test_a_status_is_found_wherever_sdks_keep_it(error: Exception, status: int | None) -> None:
    assert status_of(error) == status


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-Ab12_cd34-Ef56.",
        "Authorization: Bearer eyJhbGciOi.Ab12_cd34-Ef56",
        "Authorization: Basic Ab12cd34Ef56==",
        '{"api_key": "Ab12_cd34-Ef56"}',
        "GET https://host/v1/models?alt=sse&key=Ab12_cd34-Ef56 failed",
        "GET https://host/v1?subscription-key=Ab12_cd34-Ef56 failed",
        "https://me:Ab12_cd34-Ef56@host/v1",
        "AKIAAB12CD34Ef56",
        "Incorrect API key provided: 0123456789abcdEf56. You can find",
        "no access for nvapi-Ab12cd34Ef56",
        "password=Ab12cd34Ef56",
    ],
)
def test_what_looks_like_a_key_is_blanked_out(text: str) -> None:
    said = redact(text)
    assert "Ef56" not in said
    assert "[hidden]" in said


@pytest.mark.parametrize(
    "text",
    [
        "The api_key client option must be set, or the OPENAI_API_KEY environment variable",
        "a task-oriented key-value store",
        "at http://127.0.0.1:8000/v1, see https://host/docs?page=basic",
    ],
)
def test_what_only_speaks_of_keys_stays_readable(text: str) -> None:
    assert redact(text) == text


HIDDEN = "the password"  # looks like no key


@pytest.mark.parametrize(
    "fields",
    [
        {"api_key": SecretStr(HIDDEN)},
        {"default_headers": {"Authorization": f"Bearer {HIDDEN}"}},
        {"default_query": {"code": HIDDEN}},
        {"model_kwargs": {"extra_headers": {"x-key": HIDDEN}}},
        {"extra_body": {"provider": {"api_key": HIDDEN}}},
        {"base_url": "https://me:the%20password@host/v1"},
        {"base_url": "https://host/v1?sig=the+password"},
        {"openai_proxy": "http://me:the%20password@proxy:1"},
    ],
)
def test_a_models_own_keys_are_blanked_out_in_every_form_of_them(fields: dict[str, Any]) -> None:
    model = ChatOpenAI(**{"model": "m", "api_key": SecretStr("sk-x")} | fields)
    said = redact(f"{HIDDEN}, the%20password, the+password", secrets_of(model))
    assert said == ", ".join(["[hidden]"] * 3)


def test_keys_in_the_settings_of_a_client_are_blanked_out() -> None:
    own: Any = {"headers": {"x": HIDDEN}, "auth": ("me", HIDDEN), "cookies": {"session": HIDDEN}}
    for name, value in own.items():
        model = ChatOllama(model="m", client_kwargs={name: value})
        assert redact(HIDDEN, secrets_of(model)) == "[hidden]", name


def test_an_error_that_shows_a_key_is_no_cause_of_ours() -> None:
    model = ChatOpenAI(model="m", api_key=SecretStr(HIDDEN))
    told = ValueError("bad"), ValueError(f"bad {HIDDEN}")
    assert [to_model_call_error(error, model).__cause__ for error in told] == [told[0], None]


LOST: Any = ({"output_tokens": 7},)
REPORT: Any = {"usage": {"output_tokens": 7}}


@pytest.mark.parametrize(
    "error",
    [
        PlanAndBudgetError("said"),
        ModelCallError("said", 404, LOST),
        BudgetUsedUpError("5 tokens"),
        NoAnswerError("said", REPORT),
    ],
    ids=lambda error: type(error).__name__,
)
def test_another_process_gets_an_error_whole(error: PlanAndBudgetError) -> None:
    found = pickle.loads(pickle.dumps(error))  # noqa: S301 -- as multiprocessing does
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))
