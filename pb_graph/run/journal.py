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
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from langgraph.config import get_config
from langgraph.runtime import get_runtime

from pb_graph.budget.account import accounts_in_scope
from pb_graph.budget.ledger import spending
from pb_graph.errors import BudgetUsedUpError, ModelCallError
from pb_graph.models.client import ModelClient, WrapperClient
from pb_graph.models.io import IO
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import Reply
from pb_graph.types import Charge, ReportWarning

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

_CHANNEL = "plan_and_budget:call"
# Where LangGraph puts the checkpointer of the outermost graph for the graphs within: a private
# name. Without it no call is kept for a restart.
_CHECKPOINTER = "__pregel_checkpointer"

Record = Callable[[Sequence[Charge], Sequence[ReportWarning]], None]
"""Is told the charges of a call and its warnings, also of a call that was found."""


def checkpointer() -> BaseCheckpointSaver[Any] | None:
    """Return the checkpointer of the run that the caller is part of."""
    found: BaseCheckpointSaver[Any] | None = get_config()["configurable"].get(_CHECKPOINTER)
    return found


class Journal:
    """Keep the outcomes of a node's calls beside the checkpoint that the node started from.

    The entries are pending writes of LangGraph's, which belong to no task of its own and which it
    ignores. They are found by the node's task id, which is the same when the node starts over, and
    by what was asked. They go when their checkpoint goes. Without a checkpointer nothing is kept.
    """

    def __init__(self) -> None:
        info = get_runtime().execution_info
        self._saver = checkpointer() if info else None
        self._asked: Counter[str] = Counter()
        self._stored: dict[str, Any] | None = None
        if info and self._saver:
            self._task = UUID(info.task_id)
            place = {
                "checkpoint_ns": info.checkpoint_ns.rpartition("|")[0],
                "checkpoint_id": info.checkpoint_id,
            }
            here = get_config()["configurable"]
            public = {key: value for key, value in here.items() if not key.startswith("__")}
            self._config: RunnableConfig = {"configurable": public | place}

    async def get(self, asked: object, io: IO) -> tuple[str, Any]:
        """Look up what came of a request.

        Args:
            asked: The request; the n-th request of a node that is the same finds the n-th entry.
            io: The way to wait.

        Returns:
            The key of the entry, empty where nothing is kept; and the entry, or None.
        """
        if self._saver is None:
            return "", None
        digest = hashlib.sha256(json.dumps(asked, default=str).encode()).hexdigest()
        self._asked[digest] += 1
        key = str(uuid5(self._task, f"{digest} {self._asked[digest]}"))
        if self._stored is None:
            saver = self._saver
            found = await io.call(saver.get_tuple, saver.aget_tuple, self._config)
            writes = (found.pending_writes if found else None) or []
            self._stored = {name: entry for name, channel, entry in writes if channel == _CHANNEL}
        return key, self._stored.get(key)

    async def put(self, key: str, entry: object, io: IO) -> None:
        """Write an entry down.

        Args:
            key: As `get` gave it; empty where nothing is kept.
            entry: Plain JSON.
            io: The way to wait.
        """
        if self._saver is not None:
            saver = self._saver
            writes = [(_CHANNEL, entry)]
            await io.call(saver.put_writes, saver.aput_writes, self._config, writes, key)


class JournaledClient(WrapperClient):
    """A client that makes no call again whose reply is in the journal, and records what all cost.

    Args:
        wrapped: Makes the calls.
        journal: Keeps the replies.
        record: Is told the charges and warnings of every call.
    """

    def __init__(self, wrapped: ModelClient, journal: Journal, record: Record) -> None:
        self.wrapped, self._journal, self._record = wrapped, journal, record

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Return the reply that is in the journal, else make the call.

        Raises:
            ModelCallError: The call failed for good, now or before the node started over.
        """
        purpose, tools = options.purpose, [tool.name for tool in options.tools]
        wishes = [options.thinking, options.schema, options.sampling, options.continue_last, tools]
        said = [(message.type, message.content) for message in messages]
        key, kept = await self._journal.get([said, wishes, purpose.node, purpose.step], io)
        if kept is not None:
            return self._replay(key, kept)
        try:
            reply = await self.wrapped.call(messages, options, io)
        except ModelCallError as failure:
            self._record(failure.lost, ())
            if key and not isinstance(failure, BudgetUsedUpError):  # a pause may bring more tokens
                await self._journal.put(key, _failure_to_json(failure), io)
            raise
        self._record(reply.charges, reply.warnings)
        if key:
            await self._journal.put(key, reply.to_json(), io)
        return reply

    def _replay(self, key: str, kept: Mapping[str, Any]) -> Reply:
        failure = _failure_from_json(kept) if "error" in kept else None
        reply = None if failure else Reply.from_json(kept)
        charges = failure.lost if failure else reply.charges if reply else ()
        for account in accounts_in_scope():  # another process may have made the call
            account.count_earlier(key, spending(charges))
        self._record(charges, reply.warnings if reply else ())
        if reply is None:
            assert failure  # noqa: S101 -- one of the two
            raise failure
        return reply


def _failure_to_json(failure: ModelCallError) -> dict[str, Any]:
    known = {"status": failure.status, "fatal": failure.fatal}
    return {"error": str(failure), "lost": [dict(charge) for charge in failure.lost], **known}


def _failure_from_json(plain: Mapping[str, Any]) -> ModelCallError:
    lost = tuple(plain["lost"])
    return ModelCallError(plain["error"], plain["status"], lost, fatal=plain["fatal"])
