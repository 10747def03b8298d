"""Outcomes of a node's calls that outlive the process, until the node has finished.

LangGraph stores what a node returns. A node that makes several calls would repeat the finished ones
when it is cut off between two of them, so what each of them came to is written down before the next
one is made. LangGraph's own ``@task`` is no help: it occupies a worker of its own while its node
waits on another, and as many parallel steps as there are workers block each other for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from langgraph.config import get_config
from langgraph.runtime import get_runtime

from pb_graph.models.reply import Reply

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

# Where LangGraph puts the checkpointer of the outermost graph for the graphs within. There is no
# public name for it.
_CHECKPOINTER = "__pregel_checkpointer"
_CHANNEL = "plan_and_budget:call"


class Kept:
    """What the node at work keeps, as pending writes beside the checkpoint that it started from.

    LangGraph ignores them: they belong to no task of its own. They are found by the node's task id,
    which is the same when the node starts over, also within a host's graph. Without a checkpointer
    nothing is kept and nothing found.
    """

    def __init__(self) -> None:
        config, info = get_config(), get_runtime().execution_info
        here = config["configurable"]
        self._saver: BaseCheckpointSaver[Any] | None = None
        self._written = 0
        if info is not None and here.get(_CHECKPOINTER):
            self._saver = here[_CHECKPOINTER]
            self._task = UUID(info.task_id)
            place = {
                "checkpoint_ns": info.checkpoint_ns.rpartition("|")[0],
                "checkpoint_id": info.checkpoint_id,
            }
            public = {key: value for key, value in here.items() if not key.startswith("__")}
            self._at: RunnableConfig = {"configurable": public | place}

    def read(self) -> list[Reply | Exception]:
        """The outcomes of the calls that were finished before the node was cut off, in order."""
        return [] if self._saver is None else self._found(self._saver.get_tuple(self._at))

    async def aread(self) -> list[Reply | Exception]:
        """`read` for an event loop."""
        return [] if self._saver is None else self._found(await self._saver.aget_tuple(self._at))

    def write(self, outcome: object) -> None:
        """Keep the outcome of the next call; it is on disk when this returns."""
        self._written += 1
        if self._saver is not None and (plain := _plain(outcome)) is not None:
            self._saver.put_writes(self._at, [(_CHANNEL, plain)], self._id(self._written))

    async def awrite(self, outcome: object) -> None:
        """`write` for an event loop."""
        self._written += 1
        if self._saver is not None and (plain := _plain(outcome)) is not None:
            await self._saver.aput_writes(self._at, [(_CHANNEL, plain)], self._id(self._written))

    def _id(self, number: int) -> str:
        return str(uuid5(self._task, f"call {number}"))

    def _found(self, stored: CheckpointTuple | None) -> list[Reply | Exception]:
        writes = (stored.pending_writes if stored else None) or []
        kept = {task: plain for task, channel, plain in writes if channel == _CHANNEL}
        outcomes = []
        while (plain := kept.get(self._id(self._written + 1))) is not None:
            outcomes.append(_restored(plain))
            self._written += 1
        return outcomes


def _plain(outcome: object) -> dict[str, Any] | None:
    """What can be followed by another call, as plain JSON: a reply, also one nobody could read."""
    if isinstance(outcome, Reply):
        return {"replies": [_plain_reply(outcome)], "unreadable": None}
    replies = getattr(outcome, "replies", None)
    if isinstance(outcome, Exception) and replies is not None:
        return {"replies": [_plain_reply(reply) for reply in replies], "unreadable": str(outcome)}
    return None


def _plain_reply(reply: Reply) -> dict[str, Any]:
    return asdict(reply) | {"lost": [dict(charge) for charge in reply.lost]}


def _restored(plain: Mapping[str, Any]) -> Reply | Exception:
    replies = [Reply(**reply | {"lost": tuple(reply["lost"])}) for reply in plain["replies"]]
    if plain["unreadable"] is None:
        return replies[0]
    from pb_graph.planner.consultation import UnreadableReplyError  # noqa: PLC0415 -- loads DSPy

    return UnreadableReplyError(plain["unreadable"], replies)
