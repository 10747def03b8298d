"""Tokens, ending and visible text of a response, as providers really report them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata

from pb_graph.budget.bill import Bill
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import BLOCKING, Reply, finish_of, run_sync, tokens_of

PROMPT = [HumanMessage("What is 6 * 7? " * 20)]
FORTY = "word " * 32
"""About forty tokens, as they are estimated."""


def usage(output: int, **details: Any) -> UsageMetadata:  # noqa: ANN401
    sums: Any = {"input_tokens": 30, "output_tokens": output, "total_tokens": 30 + output}
    whole: UsageMetadata = sums | details
    return whole


def test_what_a_provider_reports_is_taken_and_reasoning_and_cached_tokens_are_parts_of_it() -> None:
    read: Any = {"cache_read": 25, "cache_creation": 0, "ephemeral_5m_input_tokens": 3}
    details = usage(12, output_token_details={"reasoning": 9}, input_token_details=read)
    assert tokens_of(AIMessage("42", usage_metadata=details), PROMPT, 1000) == (
        Bill(input=30, output=12, reasoning=9, cached=25, written=3)
    )


@pytest.mark.parametrize(("total", "output"), [(30 + 12 + 60, 72), (0, 12)])
def test_reasoning_that_was_left_out_is_found_in_the_total(total: int, output: int) -> None:
    tokens = tokens_of(AIMessage("42", usage_metadata=usage(12, total_tokens=total)), PROMPT, 1000)
    assert (tokens.output, tokens.is_measured) == (output, True)


@pytest.mark.parametrize("told", [None, usage(0)], ids=str)
def test_without_a_report_that_can_be_tokens_are_estimated_and_a_text_is_never_free(
    told: Any,  # noqa: ANN401
) -> None:
    message = AIMessage("word " * 100)
    message.usage_metadata = told
    tokens = tokens_of(message, PROMPT, 1000)
    assert not tokens.is_measured
    assert 100 <= tokens.output <= 150
    assert 60 <= tokens.input <= 100


def test_an_empty_reply_may_be_free() -> None:
    assert tokens_of(AIMessage("", usage_metadata=usage(0)), PROMPT, 1000).output == 0
    assert tokens_of(AIMessage(""), PROMPT, 1000).output == 0


def replied(cap: int, finish: str, content: Any = FORTY) -> Reply:  # noqa: ANN401
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


@pytest.mark.parametrize(
    ("reported", "tokens", "is_measured"),
    [
        (usage(10, output_token_details={"reasoning": 300}), 310, True),
        (usage(100, output_token_details={"priority_reasoning": 95}), 195, True),
        (usage(23.0), 23, True),  # type: ignore[arg-type]
        (usage(23.5), 40, False),  # type: ignore[arg-type]
        (usage(float("nan")), 40, False),  # type: ignore[arg-type]
        ({"input_tokens": "3", "output_tokens": "many", "total_tokens": "?"}, 40, False),
        (usage(3), 40, False),  # of the first chunk
        (None, 250, False),  # the metadata has more
    ],
)
def test_usage_is_a_plausible_whole_number_and_never_below_the_text(
    reported: Any,  # noqa: ANN401
    tokens: int,
    *,
    is_measured: bool,
) -> None:
    meta = {} if reported else {"eval_count": 250}
    message = AIMessage(FORTY, response_metadata=meta)
    message.usage_metadata = reported
    bill = tokens_of(message, PROMPT, 1000)
    assert (bill.output, bill.is_measured) == (tokens, is_measured)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [("word " * 100, 100, 130), ("预算" * 100, 120, 210), ("🙂" * 100, 140, 200)],
)
def test_other_scripts_have_more_tokens_than_a_quarter_of_their_characters(
    text: str, least: int, most: int
) -> None:
    assert least <= tokens_of(AIMessage(text), PROMPT, 1000).output <= most


def test_tokens_in_a_cache_of_an_hour_are_told_apart() -> None:
    written: Any = {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 20}
    bill = tokens_of(
        AIMessage("42", usage_metadata=usage(12, input_token_details=written)), PROMPT, 1000
    )
    assert (bill.written, bill.lasting) == (25, 20)
    assert Bill.of("m", bill.usage()) == replace(bill, model="m")


def test_a_reply_survives_a_journal() -> None:
    reply = replied(30, "length")
    assert Reply.from_json(json.loads(json.dumps(reply.to_json()))) == reply


@pytest.mark.parametrize(
    ("metadata", "finish"),
    [
        ({"finish_reason": "length"}, "length"),
        ({"finish_reason": "content_filter"}, "filter"),
        ({"stop_reason": "end_turn"}, "stop"),
        ({"stop_reason": "max_tokens"}, "length"),
        ({"stop_reason": "refusal"}, "filter"),
        ({"finish_reason": "MAX_TOKENS"}, "length"),
        ({"finish_reason": "SAFETY"}, "filter"),
        ({"done_reason": "length"}, "length"),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "completed", "incomplete_details": None, "model_provider": "openai"}, "stop"),
        ({"stopReason": "guardrail_intervened"}, "filter"),
        ({"stopReason": "tool_use"}, "stop"),
        ({"completionReason": "FINISH"}, "stop"),
        ({"finish_reason": "STOPSTOP"}, "stop"),  # one for each chunk of a stream
        ({"finish_reason": "STOPMAX_TOKENS"}, "length"),
        ({"finish_reason": "model_length"}, "length"),
        ({"finish_reason": "insufficient_system_resource"}, "length"),
        ({"stop_reason": "pause_turn"}, "length"),
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
def test_only_what_is_meant_to_be_seen_is_visible(content: Any, visible: str) -> None:  # noqa: ANN401
    assert replied(1000, "stop", content).text == visible
