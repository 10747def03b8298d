"""One call of a client, sync or async."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from pb_graph.models.client import ModelClient
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import ASYNC, BLOCKING, Reply, run_sync


def call(client: ModelClient, messages: Sequence[BaseMessage], options: CallOptions) -> Reply:
    """Make one call that blocks."""
    return run_sync(client.call(messages, options, BLOCKING))


async def acall(
    client: ModelClient, messages: Sequence[BaseMessage], options: CallOptions
) -> Reply:
    """Make one call in an event loop."""
    return await client.call(messages, options, ASYNC)
