"""Replies of a node's calls that outlive the process, so that no finished call is paid twice.

LangGraph stores what a node returns. A node that makes several calls would repeat the finished ones
when it is cut off between two of them, so each reply is written down as soon as it arrives.
LangGraph's own ``@task`` is no help: it occupies a worker of its own while its node waits on
another, and as many parallel steps as there are workers block each other for good.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from langgraph.config import get_config

from pb_graph.budget.ledger import spending
from pb_graph.budget.scope import accounts_in_scope
from pb_graph.errors import BudgetUsedUpError, ModelCallError
from pb_graph.models.client import IO, ModelClient, WrapperClient
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import Reply
from pb_graph.run.tools import call_tool

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage, ToolCall
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.runtime import ExecutionInfo

_CHANNEL = "plan_and_budget:call"


class Journal:
    """Keep the outcomes of a node's calls beside the checkpoint that the node started from.

    The entries are pending writes of LangGraph's, which belong to no task of its own and which it
    ignores. They are found by the node's task id, which is the same when the node starts over, and
    by what was asked. They go when their checkpoint goes.

    Args:
        saver: The checkpointer of the run.
        info: The execution of the node.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any], info: ExecutionInfo) -> None:
        self._saver, self._task = saver, UUID(info.task_id)
        self._asked: Counter[str] = Counter()
        self._stored: dict[str, Any] | None = None
        here = get_config()["configurable"]
        place = {name: value for name, value in here.items() if not name.startswith("__")}
        place["checkpoint_ns"] = info.checkpoint_ns.rpartition("|")[0]
        place["checkpoint_id"] = info.checkpoint_id
        self._config: RunnableConfig = {"configurable": place}

    async def get(self, asked: object, io: IO) -> tuple[str, Any]:
        """Look up what came of a request.

        Args:
            asked: The request; the n-th request of a node that is the same finds the n-th entry.
            io: The way to wait.

        Returns:
            The key of the entry; and the entry, or None.
        """
        digest = hashlib.sha256(json.dumps(asked, default=str).encode()).hexdigest()
        self._asked[digest] += 1
        key = str(uuid5(self._task, f"{digest} {self._asked[digest]}"))
        if self._stored is None:
            found = await io.call(self._saver.get_tuple, self._saver.aget_tuple, self._config)
            writes = (found.pending_writes if found else None) or []
            self._stored = {name: entry for name, channel, entry in writes if channel == _CHANNEL}
        return key, self._stored.get(key)

    async def put(self, key: str, entry: object, io: IO) -> None:
        """Write an entry down.

        Args:
            key: As `get` gave it.
            entry: Plain JSON.
            io: The way to wait.
        """
        saver, writes = self._saver, [(_CHANNEL, entry)]
        await io.call(saver.put_writes, saver.aput_writes, self._config, writes, key)

    async def call_tool(self, tools: Sequence[BaseTool], call: ToolCall, io: IO) -> str:
        """Return the result of a tool as `call_tool` does, from before the node started over.

        Args:
            tools: The tools that there are.
            call: The call that the model made.
            io: The way to wait.
        """
        key, text = await self.get([call["name"], call["args"]], io)
        if text is None:
            text = await call_tool(tools, call, io)
            await self.put(key, text, io)
        return str(text)


class JournaledClient(WrapperClient):
    """A client that makes no call again whose outcome is in the journal.

    Args:
        wrapped: Makes the calls.
        journal: Keeps their outcomes.
    """

    def __init__(self, wrapped: ModelClient, journal: Journal) -> None:
        super().__init__(wrapped)
        self._journal = journal

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Return the reply that is in the journal, else make the call.

        Raises:
            ModelCallError: The call failed for good, now or before the node started over.
        """
        purpose, tools = options.purpose, [tool.name for tool in options.tools]
        wishes = [options.thinking, options.schema, options.sampling, options.continue_last, tools]
        said = [(message.type, message.content) for message in messages]
        key, stored = await self._journal.get([said, wishes, purpose.node, purpose.step], io)
        if stored is not None:
            return _replay(key, stored)
        try:
            reply = await self.wrapped.call(messages, options, io)
        except BudgetUsedUpError:  # a pause may bring more tokens
            raise
        except ModelCallError as failure:
            parts = {"error": str(failure), "status": failure.status, "fatal": failure.fatal}
            lost = [dict(charge) for charge in failure.lost]
            await self._journal.put(key, {**parts, "lost": lost}, io)
            raise
        await self._journal.put(key, reply.to_json(), io)
        return reply


def _replay(key: str, stored: dict[str, Any]) -> Reply:
    """Return a stored reply, or raise a stored failure, and count what it cost."""
    outcome: Reply | ModelCallError
    if "error" in stored:
        charges = tuple(stored["lost"])
        outcome = ModelCallError(stored["error"], stored["status"], charges, fatal=stored["fatal"])
    else:
        outcome = Reply.from_json(stored)
        charges = outcome.charges
    for account in accounts_in_scope():  # another process may have made the call
        account.charge(spending(charges), run=key)
    if isinstance(outcome, ModelCallError):
        raise outcome
    return outcome
