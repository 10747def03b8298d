"""Replies that are to differ, and replies that go on from an unfinished one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage

from pb_graph.errors import ModelSetupError
from pb_graph.models.caps import policy
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import Reply
from pb_graph.types import Purpose
from tests.support.calls import acall, call
from tests.support.chat_model import ScriptedChat, in_turn, with_schema

ASK = [HumanMessage("Count.")]
BEGUN = [*ASK, AIMessage("one, two, ")]
PURPOSE = Purpose("answer")
SAMPLED = CallOptions(20, 5.0, sampling=True)
PIECE = CallOptions(20, 5.0, continue_last=True)


class Warm(ScriptedChat):
    """It has a temperature, as a provider's model has."""

    temperature: float | None = 0.0


def temperature_sent(limits: CallOptions, **fields: Any) -> object:  # noqa: ANN401
    model = Warm(**fields)
    call(ChatClient(model), ASK, limits)
    return model.calls[0].arguments.get("temperature")


def test_a_model_at_temperature_0_is_warmed_for_samples_only() -> None:
    sent = temperature_sent(SAMPLED)
    assert isinstance(sent, float)
    assert sent > 0
    assert temperature_sent(CallOptions(20, 5.0)) is None


@pytest.mark.parametrize("own", [None, 0.3, 1.0])
def test_a_temperature_of_its_own_stays(own: float | None) -> None:
    assert temperature_sent(SAMPLED, temperature=own) is None


def test_for_ollama_it_is_among_the_options() -> None:
    @policy()
    def options(_: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
        return {"options": {"num_predict": limits.cap}}

    model = Warm()
    call(ChatClient(model, options), ASK, SAMPLED)
    assert model.calls[0].arguments["options"].keys() == {"num_predict", "temperature"}
    assert "temperature" not in model.calls[0].arguments


@pytest.mark.parametrize("way", ["sync", "async"])
def test_samples_do_not_come_from_langchains_cache(way: str) -> None:
    model = ScriptedChat(solve=in_turn("one", "two"), cache=InMemoryCache())
    client = ChatClient(model)

    def said(limits: CallOptions) -> str:
        if way == "sync":
            return call(client, ASK, limits).text
        return asyncio.run(acall(client, ASK, limits)).text

    assert [said(SAMPLED), said(SAMPLED)] == ["one", "two"]
    once = CallOptions(20, 5.0)
    assert [said(once), said(once), len(model.calls)] == ["two", "two", 3]


def piece(said: str, how: Any, messages: Any = BEGUN) -> Reply:  # noqa: ANN401
    @policy(continues=how)
    def server(_: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
        return {"max_tokens": limits.cap}

    return call(ChatClient(ScriptedChat(solve=said), server), messages, PIECE)


def test_a_piece_is_taken_as_it_is_written() -> None:
    assert piece(" three, <think>four", "rest").text == " three, <think>four"


@pytest.mark.parametrize("said", ["one, two, three", "one, two,three"])
def test_where_a_server_repeats_the_beginning_that_is_no_part_of_the_piece(said: str) -> None:
    assert piece(said, "whole").text == "three"


def test_what_only_looks_like_a_repetition_stays() -> None:
    assert piece("one, two, three", "rest").text == "one, two, three"
    assert piece("one, two, three", "whole", ASK).text == "one, two, three"


def test_a_first_piece_is_asked_for_as_any_reply_is() -> None:
    asked: list[bool] = []

    @policy(continues="rest")
    def server(_: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
        asked.append(limits.continue_last)
        return {"max_tokens": limits.cap}

    client = ChatClient(ScriptedChat(), server)
    asked.clear()
    for messages in (ASK, BEGUN):
        call(client, messages, PIECE)
    assert asked == [False, True]


def test_who_cannot_go_on_is_not_asked_to() -> None:
    model = ScriptedChat()
    with pytest.raises(ModelSetupError, match="unfinished replies"):
        call(ChatClient(model), BEGUN, PIECE)
    assert not model.calls
    assert call(ChatClient(model, with_schema), BEGUN, PIECE).text
