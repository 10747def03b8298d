"""A refused request is tried again without its schema only if it had one."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import HumanMessage

from pb_graph.errors import ModelCallError
from pb_graph.models.caps import CapPolicy
from pb_graph.models.client import ChatClient
from pb_graph.models.options import CallOptions
from pb_graph.types import Purpose
from tests.support.calls import acall, call
from tests.support.chat_model import HTTPError, ScriptedChat

ASK = [HumanMessage("What is 6 * 7?")]
WITH_SCHEMA = CallOptions(10, 5.0, {"type": "object", "properties": {}})
PURPOSE = Purpose("plan")


@pytest.mark.parametrize("policy", [None, lambda _model, limits: {"max_tokens": limits.cap}])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_without_a_schema_in_the_request_a_refusal_is_final(
    policy: CapPolicy | None, *, asynchronous: bool
) -> None:
    model = ScriptedChat(planner=HTTPError(400), solve=HTTPError(400))
    client = ChatClient(model, policy)
    ways = {
        False: lambda: call(client, ASK, WITH_SCHEMA),
        True: lambda: asyncio.run(acall(client, ASK, WITH_SCHEMA)),
    }
    with pytest.raises(ModelCallError):
        ways[asynchronous]()
    assert len(model.calls) == 1
