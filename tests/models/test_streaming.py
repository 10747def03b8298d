"""A streamed reply: what is heard of it on the way, and when it is whole."""

from __future__ import annotations

import math

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


LOOP = "and so on, "


@pytest.mark.parametrize("heard", [True, False])
def test_a_watched_reply_is_over_when_it_goes_round_in_circles(heard: bool) -> None:
    told: list[str | None] = []
    reply = StreamedReply(openai(), told.append if heard else None, PATIENCE, CAP, watches=True)
    for _ in range(1000):
        reply.add(AIMessageChunk(content=LOOP))
        if reply.is_over:
            break
    assert 240 / len(LOOP) <= reply.counted <= 240 / len(LOOP) + 10
    message = reply.message()
    assert message.text == LOOP * reply.counted
    assert finish_of(message) == "repetition"
    assert message.usage_metadata is None
    assert "".join(map(str, told[1:])) == (message.text.rstrip() if heard else "")


def test_a_reply_that_nobody_watches_goes_on() -> None:
    reply = StreamedReply(openai(), lambda _: None, PATIENCE, CAP)
    for _ in range(100):
        reply.add(AIMessageChunk(content=LOOP))
    assert not reply.is_over


def test_where_a_server_counts_along_its_last_count_is_taken() -> None:
    reply = StreamedReply(openai(), None, PATIENCE, CAP, watches=True)
    count = 0
    while not reply.is_over:
        count += 4
        reply.add(AIMessageChunk(content=LOOP, usage_metadata=usage(count)))
    told = reply.message().usage_metadata
    assert told
    assert told["output_tokens"] == count


def test_hidden_thinking_is_counted_with_what_was_left() -> None:
    reply = StreamedReply(openai(), None, PATIENCE, CAP, watches=True)
    for _ in range(1 + 50):  # the first says whose reply it is
        reply.add(AIMessageChunk(content=""))
    while not reply.is_over:
        reply.add(AIMessageChunk(content=LOOP))
    assert reply.counted == 50 + len(reply.message().text) // len(LOOP)


def judged(text: str, *chances: float) -> AIMessageChunk:
    """A piece of a reply, with the probability of each of its tokens."""
    told = [{"token": "t", "logprob": math.log(chance)} for chance in chances]
    return AIMessageChunk(content=text, response_metadata={"logprobs": {"content": told}})


@given(st.lists(st.floats(0.001, 1), max_size=60), st.floats(0.1, 60))
def test_a_reply_is_over_once_it_is_less_probable_than_wanted(
    chances: list[float], surprisal: float
) -> None:
    reply = StreamedReply(openai(), None, PATIENCE, CAP, surprisal=surprisal)
    gone, number = 0.0, 0
    for number, chance in enumerate(chances, start=1):
        gone -= math.log(chance)
        reply.add(judged(f"{number} ", chance))
        if reply.is_over:
            break
    assert reply.is_over == (gone > surprisal)
    assert reply.counted == number
    if reply.is_over:
        message = reply.message()
        assert message.text.split() == [str(n + 1) for n in range(number)]
        assert finish_of(message) == "surprisal"


def test_all_tokens_of_a_piece_are_counted_and_judged() -> None:
    reply = StreamedReply(openai(), None, PATIENCE, CAP, surprisal=2.0)
    reply.add(judged("so it is then, " * 20, *[0.5] * 60))
    assert reply.is_over
    assert reply.counted == 60


def test_thinking_that_is_hidden_is_not_judged() -> None:
    reply = StreamedReply(openai(), None, PATIENCE, CAP, surprisal=2.0)
    for _ in range(100):
        reply.add(judged("", 0.1))
    assert not reply.is_over


@pytest.mark.parametrize("logprobs", [None, [], {"content": [{}]}, {"content": [{"logprob": "x"}]}])
def test_probabilities_that_cannot_be_read_end_nothing(logprobs: object) -> None:
    reply = StreamedReply(openai(), None, PATIENCE, CAP, surprisal=0.1)
    reply.add(AIMessageChunk(content="so", response_metadata={"logprobs": logprobs}))
    assert not reply.is_over


def test_pieces_that_are_longer_than_tokens_are_not_counted_as_such() -> None:
    reply = StreamedReply(openai(), None, PATIENCE, CAP, watches=True)
    reply.add(AIMessageChunk(content=LOOP * 100))
    assert reply.is_over
    assert reply.counted == 0


def test_a_reason_that_is_said_twice_is_one() -> None:
    reply = StreamedReply(openai(), None, PATIENCE, CAP)
    cut = {"finish_reason": "length"}
    reply.add(AIMessageChunk(content="It is"))
    for _ in range(2):  # OpenRouter does, with the usage
        reply.add(AIMessageChunk(content="", response_metadata=cut))
    assert finish_of(reply.message()) == "length"
