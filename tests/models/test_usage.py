"""Tokens, endings and visible text of a response, as providers really report them."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata

from pb_graph.models.reply import finish_of, read_usage, tokens_of, visible_text

PROMPT = [HumanMessage("What is 6 * 7? " * 20)]


def usage(output: int, **details: Any) -> UsageMetadata:  # noqa: ANN401
    sums: Any = {"input_tokens": 30, "output_tokens": output, "total_tokens": 30 + output}
    whole: UsageMetadata = sums | details
    return whole


def test_what_a_provider_reports_is_taken() -> None:
    message = AIMessage("forty-two", usage_metadata=usage(12))
    assert tokens_of(message, PROMPT) == (30, 12, 0, 0, True, 0)


def test_reasoning_and_cached_tokens_are_parts_of_the_sums() -> None:
    details = usage(
        12, output_token_details={"reasoning": 9}, input_token_details={"cache_read": 25}
    )
    tokens = tokens_of(AIMessage("42", usage_metadata=details), PROMPT)
    assert (tokens.output, tokens.reasoning, tokens.input, tokens.cached) == (12, 9, 30, 25)


@pytest.mark.parametrize(
    ("given", "output"),
    [
        ({"total_tokens": 30 + 12 + 60}, 72),
        ({"total_tokens": 30 + 12 + 60, "output_token_details": {"reasoning": 60}}, 72),
        ({"output_token_details": {"reasoning": 60}}, 60),
        ({"total_tokens": 0}, 12),
        ({"total_tokens": 30 + 12 + 25, "input_token_details": {"cache_read": 25}}, 12),
    ],
)
def test_reasoning_that_was_left_out_is_found(given: dict[str, Any], output: int) -> None:
    tokens = tokens_of(AIMessage("42", usage_metadata=usage(12, **given)), PROMPT)
    assert (tokens.output, tokens.measured) == (output, True)


@pytest.mark.parametrize("lie", [-65, 10**12, "many", True, 12.5, float("nan"), None])
@pytest.mark.parametrize("name", ["input_tokens", "output_tokens"])
def test_what_cannot_be_a_count_is_estimated_instead(lie: object, name: str) -> None:
    message = AIMessage("forty-two")
    message.usage_metadata = usage(12, **{name: lie})
    tokens = tokens_of(message, PROMPT)
    assert not tokens.measured
    assert 1 <= tokens.output <= 5
    assert "the server reported" in str(read_usage(message))


@pytest.mark.parametrize(
    ("text", "output", "measured"),
    [
        ("42", 101, False),  # more than was asked for, and than its text can have cost
        ("42", 100, True),
        ("word " * 100, 101, True),  # the server took no notice of the cap, and says so
        ("word " * 100, 501, False),
    ],
)
def test_more_than_was_asked_for_is_believed_if_the_text_bears_it_out(
    text: str, output: int, *, measured: bool
) -> None:
    message = AIMessage(text, usage_metadata=usage(output))
    assert tokens_of(message, PROMPT, cap=100).measured is measured


def test_so_is_thinking_that_a_cap_did_not_bind() -> None:
    told = usage(900, output_token_details={"reasoning": 890})
    assert tokens_of(AIMessage("42", usage_metadata=told), PROMPT, cap=100).output == 900


def test_without_a_report_tokens_are_estimated_and_marked() -> None:
    tokens = tokens_of(AIMessage("word " * 100), PROMPT)
    assert not tokens.measured
    assert 100 <= tokens.output <= 150
    assert 60 <= tokens.input <= 100
    assert (tokens.reasoning, tokens.cached) == (0, 0)


def test_a_written_answer_is_never_free() -> None:
    for message in (AIMessage("4"), AIMessage("4", usage_metadata=usage(0))):
        tokens = tokens_of(message, PROMPT)
        assert not tokens.measured
        assert tokens.output >= 1


def test_no_token_is_as_long_as_some_servers_say() -> None:
    message = AIMessage("word " * 100, usage_metadata=usage(1))
    assert 100 <= tokens_of(message, PROMPT).output <= 150
    assert read_usage(message) == "the server reported 1 completion tokens for 500 characters"


def test_nothing_is_not_known_of_a_reply_that_ran_into_its_cap_unseen() -> None:
    cut = {"finish_reason": "length"}
    assert not read_usage(AIMessage("", usage_metadata=usage(0), response_metadata=cut))


def test_an_empty_reply_may_be_free() -> None:
    assert tokens_of(AIMessage("", usage_metadata=usage(0)), PROMPT).output == 0
    assert tokens_of(AIMessage(""), PROMPT).output == 0


@pytest.mark.parametrize(
    ("metadata", "finish"),
    [
        ({"finish_reason": "stop"}, "stop"),
        ({"finish_reason": "length"}, "length"),
        ({"finish_reason": "content_filter"}, "filter"),
        ({"finish_reason": "tool_calls"}, "stop"),
        ({"stop_reason": "end_turn"}, "stop"),
        ({"stop_reason": "max_tokens"}, "length"),
        ({"stop_reason": "model_context_window_exceeded"}, "length"),
        ({"stop_reason": "refusal"}, "filter"),
        ({"finish_reason": "MAX_TOKENS"}, "length"),
        ({"finish_reason": "SAFETY"}, "filter"),
        ({"done_reason": "length"}, "length"),
        ({"stopReason": "max_tokens"}, "length"),  # Bedrock
        ({"status": "completed", "incomplete_details": None}, "stop"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "length",
        ),
        ({"finish_reason": "insufficient_system_resource"}, "length"),
        ({"finish_reason": "error"}, "length"),
        ({"finish_reason": None}, "stop"),
        ({}, "stop"),
    ],
)
def test_endings_have_one_vocabulary(metadata: dict[str, Any], finish: str) -> None:
    assert finish_of(AIMessage("x", response_metadata=metadata)) == finish


@pytest.mark.parametrize(
    ("content", "visible"),
    [
        (" The answer is 42.\n", "The answer is 42."),
        ("<think>6 * 7 is 42</think>\n\n42", "42"),
        ("6 * 7 is 42\n</think>\n42", "42"),
        ("<think>6 * 7 is", ""),
        ("", ""),
        ([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "42"}], "42"),
        ("half \ud800", "half ?"),
        (r"a < b, \think, </thin>", r"a < b, \think, </thin>"),
    ],
)
def test_only_what_is_meant_to_be_seen_is_visible(content: Any, visible: str) -> None:  # noqa: ANN401
    assert visible_text(AIMessage(content)) == visible


def test_a_call_of_a_tool_is_never_free() -> None:
    made = {"name": "look_up", "args": {"query": "how many pens for $14 " * 5}, "id": "1"}
    bare = AIMessage("", tool_calls=[made])
    assert tokens_of(bare, PROMPT).output > 20
    assert tokens_of(AIMessage("", tool_calls=[made], usage_metadata=usage(0)), PROMPT).output > 20
    beyond = AIMessage("", tool_calls=[made], usage_metadata=usage(60))
    assert tokens_of(beyond, PROMPT, cap=20) == (30, 60, 0, 0, True, 0)
