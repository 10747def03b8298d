"""A streamed reply: what is heard of it on the way, and when it is whole."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessageChunk
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph.models.aloud import Aloud
from tests.support.chat_model import ScriptedChat

PATIENCE = 60.0


def openai() -> ChatOpenAI:
    return ChatOpenAI(model="any", api_key=SecretStr("any"))


def heard(*pieces: str) -> list[str]:
    told: list[str] = []
    aloud = Aloud(ScriptedChat(), told.append, PATIENCE)
    for piece in pieces:
        aloud.add(AIMessageChunk(content=piece))
    assert aloud.whole().text == "".join(pieces)
    return told


def test_each_piece_is_told_with_those_before_it() -> None:
    assert heard("forty", " ", "two") == ["forty", "forty", "forty two"]


def test_no_part_of_a_thinking_tag_is_told() -> None:
    assert heard("<th", "ink>6 * 7", "</thi", "nk> 42") == ["", "", "", "42"]
    assert heard("x <", " y")[-1] == "x < y"


def test_a_reply_that_takes_too_long_is_given_up() -> None:
    aloud = Aloud(ScriptedChat(), lambda _: None, seconds=-1)
    with pytest.raises(TimeoutError, match="took too long"):
        aloud.add(AIMessageChunk(content="for"))


def test_an_empty_stream_is_no_reply() -> None:
    with pytest.raises(ConnectionError, match="empty"):
        Aloud(ScriptedChat(), lambda _: None, PATIENCE).whole()


@pytest.mark.parametrize("ending", [{"finish_reason": "stop"}, {"status": "completed"}])
def test_where_the_protocol_says_why_it_ends_a_reply_without_that_has_broken_off(
    ending: dict[str, str],
) -> None:
    aloud = Aloud(openai(), lambda _: None, PATIENCE)
    aloud.add(AIMessageChunk(content="forty"))
    with pytest.raises(ConnectionError, match="before the reply did"):
        aloud.whole()
    aloud.add(AIMessageChunk(content=" two", response_metadata=ending))
    assert aloud.whole().text == "forty two"
