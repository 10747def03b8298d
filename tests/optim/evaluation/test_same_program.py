"""An evaluation measures the program that production runs."""

from __future__ import annotations

from pathlib import Path

from langchain_core.messages import HumanMessage

from optim.evaluation.cache import CachedClient
from optim.evaluation.store import ReplyCache
from pb_graph.models.client import ChatClient, ModelClient
from pb_graph.models.options import CallOptions
from tests.support import calls
from tests.support.chat_model import ScriptedChat, thinks_in_vain


def test_what_a_client_learns_is_known_through_the_cache_of_an_evaluation(tmp_path: Path) -> None:
    """A model that thinks whatever it is told: production asks it otherwise from then on."""
    client = ChatClient(ScriptedChat(solve=thinks_in_vain))
    cached = CachedClient(client, "m", "identity", ReplyCache(tmp_path / "replies.jsonl"))
    assert isinstance(cached, ModelClient)
    assert not cached.ignores_thinking_off
    calls.call(cached, [HumanMessage("?")], CallOptions(10, thinking="off"))
    assert client.ignores_thinking_off
    assert cached.ignores_thinking_off
    assert cached.prefill == client.prefill
