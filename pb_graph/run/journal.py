"""Store the replies of a node's calls, so that no finished call is paid twice.

LangGraph stores what a node returns. A node that makes several calls would repeat the finished ones
when it is cut off between two of them, so each reply is written down as soon as it arrives.
LangGraph's own ``@task`` would deadlock: a task needs a second worker while its node waits for it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID, uuid5

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config
from langgraph.runtime import ExecutionInfo

from pb_graph.budget.bill import spending
from pb_graph.budget.scope import ACCOUNTS
from pb_graph.models.client import ModelClient
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import IO, Reply

_CHANNEL = "plan_and_budget:call"


class Journal:
    """Keep the outcomes of a node's calls beside the checkpoint that the node started from.

    The entries are pending writes that belong to none of LangGraph's tasks, so LangGraph ignores
    them. They are found by the node's task id, which stays the same when the node restarts, and by
    the request. They are deleted with their checkpoint.

    Args:
        saver: The checkpointer of the run.
        info: The execution of the node.
        io: How to wait, `BLOCKING` or `ASYNC`.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any], info: ExecutionInfo, io: IO) -> None:
        self._saver, self._task, self._io = saver, UUID(info.task_id), io
        self._asked: Counter[str] = Counter()
        self._stored: dict[str, Any] | None = None
        here = get_config()["configurable"]
        place = {name: value for name, value in here.items() if not name.startswith("__")}
        place["checkpoint_ns"] = info.checkpoint_ns.rpartition("|")[0]
        place["checkpoint_id"] = info.checkpoint_id
        self._config: RunnableConfig = {"configurable": place}

    async def call(
        self, client: ModelClient, messages: Sequence[BaseMessage], options: CallOptions
    ) -> Reply:
        """Return the stored reply, or make the call and store its reply.

        Args:
            client: Makes the call.
            messages: The prompt.
            options: Options of this call.

        Raises:
            ModelCallError: If the call and its retries fail.
        """
        purpose, tools = options.purpose, [tool.name for tool in options.tools]
        wishes = [options.thinking, options.schema, options.sampling, options.continue_last, tools]
        contents = [(message.type, message.content) for message in messages]
        key, stored = await self.find([contents, wishes, purpose.node, purpose.step])
        if stored is None:
            reply = await client.call(messages, options, self._io)
            await self.write(key, reply.to_json())
        else:
            reply = Reply.from_json(stored)
        made = spending(reply.charges) if stored else {}  # perhaps in another process
        for account in ACCOUNTS.get():
            account.charge(made, run=key)
        return reply

    async def once(self, request: object, make: Callable[[], Awaitable[str]]) -> str:
        """Return the stored text, or make and store it.

        Args:
            request: The question that the text answers, as JSON.
            make: Returns the text.
        """
        key, stored = await self.find(request)
        if stored is None:
            stored = await make()
            await self.write(key, stored)
        return str(stored)

    async def find(self, request: object) -> tuple[str, Any]:
        """Return the key of a request of this node, and its entry or None.

        The n-th request of a node that is the same finds the n-th entry.
        """
        digest = hashlib.sha256(json.dumps(request, default=str).encode()).hexdigest()
        self._asked[digest] += 1
        key = str(uuid5(self._task, f"{digest} {self._asked[digest]}"))
        if self._stored is None:
            checkpoint = await self._io.call(
                self._saver.get_tuple, self._saver.aget_tuple, self._config
            )
            writes = (checkpoint.pending_writes if checkpoint else None) or []
            self._stored = {name: entry for name, channel, entry in writes if channel == _CHANNEL}
        return key, self._stored.get(key)

    async def write(self, key: str, entry: object) -> None:
        """Store the entry of a request."""
        saver, writes = self._saver, [(_CHANNEL, entry)]
        await self._io.call(saver.put_writes, saver.aput_writes, self._config, writes, key)
