"""A streamed reply: what is heard of it on the way, and when it is whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import UsageMetadata
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph.models.streaming import StreamedReply
from pb_graph.models.usage import finish_of, visible_text
from tests.support.chat_model import ScriptedChat

PATIENCE, CAP = 60.0, 10_000


def openai() -> ChatOpenAI:
    return ChatOpenAI(model="any", api_key=SecretStr("any"))


def heard(*pieces: str) -> list[str]:
    """What was told since the reply last began."""
    told: list[str | None] = []
    reply = StreamedReply(ScriptedChat(), told.append, PATIENCE, CAP)
    for piece in pieces:
        reply.add(AIMessageChunk(content=piece))
    assert reply.message().text == "".join(pieces)
    assert len(reply._held.strip()) <= len("</think>")  # blanks before it are held, too
    begun = len(told) - told[::-1].index(None)
    return [str(piece) for piece in told[begun:]]


def test_each_piece_is_told_once() -> None:
    assert heard("forty", " ", "two") == ["forty", " two"]
    assert heard(*["so "] * 500) == ["so", *[" so"] * 499]


def test_no_part_of_a_thinking_tag_is_told() -> None:
    assert heard("<th", "ink>6 * 7", "</thi", "nk> 42") == ["42"]
    assert heard("x <", " y") == ["x", " < y"]


def test_what_turns_out_to_have_been_thinking_is_taken_back() -> None:
    assert heard("6 * 7", " is </think>", "42") == ["42"]


@given(st.lists(st.sampled_from(["<think>", "</think>", "<", "/", "th", "ink>", "a", " ", "\n"])))
def test_however_a_text_is_cut_the_pieces_make_up_what_is_visible_of_it(pieces: list[str]) -> None:
    told = "".join(heard("x", *pieces))
    visible = visible_text(AIMessage("x" + "".join(pieces)))
    assert visible.startswith(told)
    assert len(visible) - len(told) < len("</think>")


def test_a_reply_that_is_given_up_tells_nothing_more() -> None:
    told: list[str | None] = []
    reply = StreamedReply(ScriptedChat(), told.append, PATIENCE, CAP)
    reply.give_up()
    with pytest.raises(TimeoutError):
        reply.add(AIMessageChunk(content="late"))
    assert told == [None]


def test_a_reply_that_takes_too_long_is_given_up() -> None:
    reply = StreamedReply(ScriptedChat(), lambda _: None, seconds=-1, cap=CAP)
    with pytest.raises(TimeoutError, match="took too long"):
        reply.add(AIMessageChunk(content="for"))


def test_an_empty_stream_is_no_reply() -> None:
    with pytest.raises(ConnectionError, match="empty"):
        StreamedReply(ScriptedChat(), lambda _: None, PATIENCE, CAP).message()


@pytest.mark.parametrize("ending", [{"finish_reason": "stop"}, {"status": "completed"}])
def test_where_the_protocol_says_why_it_ends_a_reply_without_that_has_broken_off(
    ending: dict[str, str],
) -> None:
    reply = StreamedReply(openai(), lambda _: None, PATIENCE, CAP)
    reply.add(AIMessageChunk(content="forty"))
    with pytest.raises(ConnectionError, match="before the reply did"):
        reply.message()
    reply.add(AIMessageChunk(content=" two", response_metadata=ending))
    assert reply.message().text == "forty two"


def parts(*texts: str) -> list[AIMessageChunk]:
    """Chunks of a reply that ends well."""
    last = AIMessageChunk(content="", response_metadata={"finish_reason": "stop"})
    return [*(AIMessageChunk(content=text) for text in texts), last]


def usage(output: int) -> UsageMetadata:
    return UsageMetadata(input_tokens=9, output_tokens=output, total_tokens=9 + output)


@pytest.mark.parametrize(
    ("model", "tokens"), [(openai(), 3), (ScriptedChat(), 1 + 2 + 3)], ids=["sums", "differences"]
)
def test_usage_that_is_reported_again_and_again_counts_once(
    model: BaseChatModel, tokens: int
) -> None:
    reply = StreamedReply(model, lambda _: None, PATIENCE, CAP)
    for count, chunk in enumerate(parts("so", " it", " is")[:3], start=1):
        reply.add(chunk.model_copy(update={"usage_metadata": usage(count)}))
    reply.add(parts()[0])
    told = reply.message().usage_metadata
    assert told
    assert told["output_tokens"] == tokens


def test_once_more_text_has_come_than_the_cap_can_carry_the_reply_is_over() -> None:
    reply = StreamedReply(openai(), lambda _: None, PATIENCE, cap=10)
    words = 0
    while not reply.is_over:
        reply.add(AIMessageChunk(content="words "))
        words += 1
    assert 10 < words < 100
    message = reply.message()
    assert message.text == "words " * words
    assert finish_of(message) == "length"
    assert message.usage_metadata is None


def test_a_reply_that_had_ended_is_rescued_when_only_its_usage_is_lost() -> None:
    reply = StreamedReply(openai(), lambda _: None, PATIENCE, CAP)
    for chunk in parts("forty", " two"):
        assert reply.rescued() is None
        reply.add(chunk)
    rescued = reply.rescued()
    assert rescued
    assert (rescued.text, finish_of(rescued)) == ("forty two", "stop")


def test_a_reason_that_is_said_twice_is_one() -> None:
    reply = StreamedReply(openai(), None, PATIENCE, CAP)
    cut = {"finish_reason": "length"}
    reply.add(AIMessageChunk(content="It is"))
    for _ in range(2):  # OpenRouter does, with the usage
        reply.add(AIMessageChunk(content="", response_metadata=cut))
    assert finish_of(reply.message()) == "length"
