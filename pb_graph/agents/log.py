"""Keep what the calls of a node have cost, and their replies, beside the node's checkpoint."""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

from langchain_core.messages import messages_from_dict
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.runtime import get_runtime

from pb_graph.budget.account import Budget
from pb_graph.budget.bill import add_spending
from pb_graph.models.reply import IO
from pb_graph.run.journal import Journal
from pb_graph.run.pause import BudgetPause
from pb_graph.types import Spending

_LOADED = uuid4().hex


class Log:
    """The log of a node that calls models, or of a tool call. It outlives a kill.

    Without a checkpointer nothing is stored. An agent that ended before the tool that it runs in
    was killed is not asked again, so its calls stand in the log of the tool call, too.

    Args:
        io: How to wait, `BLOCKING` or `ASYNC`.
        run: Identity of the agent's run.
        tool_call: Identity of the tool call; None for the log of a node that calls models.

    Attributes:
        entries: What was written before the node started over, and since.
    """

    def __init__(self, io: IO, run: str = "", tool_call: str | None = None) -> None:
        self._io, self._run, self._key = io, run, ""
        self._name = ["TokenBudgetMiddleware", tool_call]
        self._journal = _journal()
        self.entries: list[dict[str, Any]] = []

    async def read(self) -> Log:
        """Read what was written before the node started over."""
        if self._journal:
            self._key, entry = await self._journal.find(self._name, self._io)
            while entry:
                self.entries.append(entry)
                self._key, entry = await self._journal.find(self._name, self._io)
        return self

    async def add(self, account: Budget, cost: Spending, **entry: Any) -> None:  # noqa: ANN401 -- JSON
        """Write an entry with the account's spending, and its cost to the logs of enclosing tools.

        Args:
            account: The account of the run.
            cost: What a call has cost, by model.
            **entry: The digest of a `request` and its `reply`, or a `pause`.
        """
        known = {"tokens": account.spending, "total": account.total, "process": _process()}
        await self._write(known | entry)
        for tool in TOOL_LOGS.get() if cost else ():
            await tool._write({"run": self._run, "tokens": cost})  # noqa: SLF001 -- of a Log

    def take(self, request: str) -> Any:  # noqa: ANN401 -- a message, or None
        """Return the reply to a call that another process has paid, once.

        A call that this process repeats, as after an error in another middleware, is made again.
        """
        for entry in self.entries:
            is_elsewhere = entry.get("process") != _process()
            if is_elsewhere and entry.get("reply") and entry["request"] == request:
                entry["request"] = None
                return messages_from_dict([entry["reply"]])[0]
        return None

    @property
    def pause(self) -> BudgetPause | None:
        """The pause that the node came to before it started over."""
        return next((entry["pause"] for entry in self.entries if "pause" in entry), None)

    @property
    def runs(self) -> dict[str, Spending]:
        """What the runs of agents within a tool call have spent, each without those below it."""
        runs: dict[str, Spending] = {}
        for entry in (entry for entry in self.entries if "run" in entry):
            runs[entry["run"]] = add_spending(runs.get(entry["run"]), entry["tokens"])
        return runs

    async def _write(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)
        if self._journal:
            key = self._key
            self._key, _ = await self._journal.find(self._name, self._io)
            await self._journal.write(key, entry, self._io)


TOOL_LOGS: ContextVar[tuple[Log, ...]] = ContextVar("pb_graph_tool_logs", default=())
"""The logs of the tool calls around a caller."""


def _process() -> str:
    return f"{_LOADED} {os.getpid()}"  # a fork has the same memory, a new container the same number


def _journal() -> Journal | None:
    """Return the journal of the running node; None without a checkpointer."""
    try:
        saver = get_config()["configurable"].get(CONFIG_KEY_CHECKPOINTER)
        info = get_runtime().execution_info
    except (RuntimeError, KeyError):  # outside a graph
        return None
    return Journal(saver, info) if saver and info and info.checkpoint_id else None
