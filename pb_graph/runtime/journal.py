"""Outcomes of a node's calls that outlive the process.

LangGraph stores what a node returns. A node that makes several calls would repeat the finished ones
when it is cut off between two of them, so what each of them came to is written down before the next
one is made. LangGraph's own ``@task`` is no help: it occupies a worker of its own while its node
waits on another, and as many parallel steps as there are workers block each other for good.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from langgraph.config import get_config
from langgraph.runtime import get_runtime

from pb_graph.budget.ledger import most_billed
from pb_graph.errors import ModelCallError
from pb_graph.models.reply import Reply
from pb_graph.planner.requests import PlannerReply, UnreadableReplyError
from pb_graph.runtime.langgraph_internals import checkpointer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.runnables import RunnableConfig

_CHANNEL = "plan_and_budget:call"

Outcome = Reply | PlannerReply[Any] | ModelCallError | UnreadableReplyError | str
"""What a call can come to; of a tool, its text."""


class CallJournal:
    """What the calls of the node at work came to, beside the checkpoint that it started from.

    They are pending writes, which LangGraph ignores: they belong to no task of its own. They are
    found by the node's task id, which is the same when the node starts over, also within a host's
    graph, and by what was asked. They go when their checkpoint goes; what a node's last call came
    to is not written at all, since it is in what the node returns. Without a checkpointer nothing
    is kept and nothing found.
    """

    def __init__(self, *, blocking: bool) -> None:
        info = get_runtime().execution_info
        self._blocking = blocking
        self._saver = checkpointer() if info else None
        self._calls = 0
        self._stored: dict[str, Any] | None = None
        self._unwritten: list[tuple[str, dict[str, Any]]] = []
        if info and self._saver:
            self._task = UUID(info.task_id)
            place = {
                "checkpoint_ns": info.checkpoint_ns.rpartition("|")[0],
                "checkpoint_id": info.checkpoint_id,
            }
            here = get_config()["configurable"]
            public = {key: value for key, value in here.items() if not key.startswith("__")}
            self._at: RunnableConfig = {"configurable": public | place}

    async def next_call(self, asked: object) -> tuple[str, Mapping[str, Any] | None]:
        """Begin the next call; what was kept before is on disk when this returns.

        Returns:
            The call's id, and what it came to if it was finished before the node was cut off.
        """
        self._calls += 1
        if self._saver is None:
            return "", None
        for name, outcome in self._unwritten:
            writes = [(_CHANNEL, outcome)]
            if self._blocking:
                self._saver.put_writes(self._at, writes, name)
            else:
                await self._saver.aput_writes(self._at, writes, name)
        self._unwritten.clear()
        if self._stored is None:
            saver, at = self._saver, self._at
            found = saver.get_tuple(at) if self._blocking else await saver.aget_tuple(at)
            kept = (found.pending_writes if found else None) or []
            self._stored = {made: plain for made, channel, plain in kept if channel == _CHANNEL}
        digest = hashlib.sha256(json.dumps(asked, default=str).encode()).hexdigest()
        name = str(uuid5(self._task, f"call {self._calls} {digest}"))
        return name, self._stored.get(name)

    def keep(self, name: str, outcome: Outcome) -> None:
        """Keep what a call came to, until it is written before the next one is made."""
        if self._saver is not None:
            self._unwritten.append((name, encode(outcome)))


def encode(outcome: Outcome) -> dict[str, Any]:
    """An outcome as plain JSON."""
    if isinstance(outcome, ModelCallError):
        lost = [dict(charge) for charge in outcome.lost]
        known = {"status": outcome.status, "fatal": outcome.fatal}
        return {"error": str(outcome), **known, "lost": lost}
    if isinstance(outcome, str):
        return {"tool": outcome}
    if isinstance(outcome, Reply):
        return {"replies": [outcome.to_json()]}
    replies = [reply.to_json() for reply in outcome.replies]
    if isinstance(outcome, UnreadableReplyError):
        return {"replies": replies, "unreadable": str(outcome)}
    return {"replies": replies, "value": outcome.value.model_dump(mode="json")}


def tokens_in(plain: Mapping[str, Any]) -> int:
    """Return the completion tokens that an encoded outcome may have been billed."""
    replies = plain.get("replies", [])
    charges = [charge for reply in replies for charge in (*reply["lost"], reply["charge"])]
    return most_billed([*plain.get("lost", []), *charges])


def decode(plain: Mapping[str, Any], form: type[Any] | None = None) -> Any:  # noqa: ANN401
    """An outcome as it was; ``form`` is the type of a planner's value, and None for a solver's.

    Raises:
        ModelCallError: That was the outcome.
        UnreadableReplyError: Likewise.
    """
    if "error" in plain:
        fatal = plain.get("fatal", False)
        lost = tuple(plain["lost"])
        raise ModelCallError(plain["error"], plain["status"], lost, fatal=fatal)
    if "tool" in plain:
        return str(plain["tool"])
    replies = [Reply.from_json(reply) for reply in plain["replies"]]
    if "unreadable" in plain:
        raise UnreadableReplyError(plain["unreadable"], replies)
    if form is None:
        return replies[0]
    return PlannerReply(form.model_validate(plain["value"]), replies)
