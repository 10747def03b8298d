"""Replies that are to differ, and replies that go on from an unfinished one."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.messages import AIMessage, HumanMessage

from pb_graph.errors import ModelSetupError
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions
from tests.support.calls import call
from tests.support.chat_model import ScriptedChat, in_turn, with_schema

ASK = [HumanMessage("Count.")]
BEGUN = [*ASK, AIMessage("one, two, ")]
SAMPLED = CallOptions(20, 5.0, sampling=True)
PIECE = CallOptions(20, 5.0, continue_last=True)


class Warm(ScriptedChat):
    """It has a temperature, as a provider's model has, and tells it."""

    temperature: float | None = 0.0

    def _said(self, _: Any) -> str:  # noqa: ANN401
        return str(self.temperature)


@pytest.mark.parametrize(
    ("own", "options", "said"),
    [(0.0, SAMPLED, "0.7"), (0.0, CallOptions(20, 5.0), "0.0"), (0.3, SAMPLED, "0.3")],
)
def test_a_model_at_temperature_0_is_warmed_for_samples_only(
    own: float | None, options: CallOptions, said: str
) -> None:
    assert call(ChatClient(Warm(temperature=own)), ASK, options).text == said


def test_samples_do_not_come_from_langchains_cache() -> None:
    model = ScriptedChat(solve=in_turn("one", "two"), cache=InMemoryCache())
    client, once = ChatClient(model), CallOptions(20, 5.0)
    said = [call(client, ASK, options).text for options in (SAMPLED, SAMPLED, once, once)]
    assert said == ["one", "two", "two", "two"]
    assert len(model.calls) == 3


@pytest.mark.parametrize(
    ("said", "piece"),
    [
        ("one, two, three", "three"),  # llama.cpp repeats what it continues
        ("one, two,three", "three"),  # and some templates trim it
    ],
)
def test_a_piece_is_taken_as_it_is_written_without_the_beginning(said: str, piece: str) -> None:
    assert call(ChatClient(ScriptedChat(solve=said), with_schema), BEGUN, PIECE).text == piece


def test_who_cannot_go_on_is_not_asked_to() -> None:
    model = ScriptedChat()
    with pytest.raises(ModelSetupError, match="unfinished replies"):
        call(ChatClient(model), BEGUN, PIECE)
    assert not model.calls
