"""Tokens, ending and visible text of a response, as providers really report them."""
# ruff: noqa: ANN401 -- what providers report

from __future__ import annotations

import json
from dataclasses import replace
from enum import Enum
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
Ending = Enum("Ending", "STOP")


def usage(output: int, **details: Any) -> UsageMetadata:
    sums: Any = {"input_tokens": 30, "output_tokens": output, "total_tokens": 30 + output}
    whole: UsageMetadata = sums | details
    return whole


def test_what_a_provider_reports_is_taken_and_the_details_are_parts_of_it() -> None:
    read: Any = {"cache_read": 2, "cache_creation": 0, "ephemeral_5m_input_tokens": 5}
    read["ephemeral_1h_input_tokens"] = 20  # told apart, as its price is
    details = usage(12, output_token_details={"reasoning": 9}, input_token_details=read)
    bill = tokens_of(AIMessage("42", usage_metadata=details), PROMPT, 1000)
    assert bill == Bill(input=30, output=12, reasoning=9, cached=2, written=25, lasting=20)
    assert Bill.of("m", bill.usage()) == replace(bill, model="m")


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
    bill = tokens_of(reply, PROMPT, 1000)
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
        ({"finish_details": {"type": "max_tokens"}}, "length"),
        ({"finish_reason": Ending.STOP}, "stop"),
        ({"status": "failed", "model_provider": "openai"}, "length"),
        ({"status": 200}, "stop"),
        ({"prompt_feedback": {"block_reason": "SAFETY"}}, "filter"),
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
def test_only_what_is_meant_to_be_seen_is_visible(content: Any, visible: str) -> None:
    assert replied(1000, "stop", content).text == visible
