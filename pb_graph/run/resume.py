"""Let a run go on: after a decision on a budget that is used up, and after its process has ended.

A node that is cut off between two calls starts over, so each reply is stored as soon as it arrives.
LangGraph's own ``@task`` would deadlock: a task needs a second worker while its node waits for it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any, Literal, Self
from uuid import UUID, uuid5

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config
from langgraph.runtime import ExecutionInfo
from langgraph.types import interrupt
from pydantic import BaseModel, Field, model_validator
from typing_extensions import TypedDict

from pb_graph.budget.account import Budget
from pb_graph.budget.bill import Unit
from pb_graph.errors import BudgetUsedUpError
from pb_graph.models.reply import IO
from pb_graph.types import Spending

OnUsedUp = Literal["answer", "pause", "error"]
Decision = Literal["raise", "finish", "stop"]

_MAX_SHOWN = 2000  # characters of a message
_CHANNEL = "plan_and_budget:call"


class BudgetPause(TypedDict):
    """Interrupt value of an agent that has only its reserve left, or of a graph."""

    reason: str
    unit: Unit
    total: float
    spent: float
    """The amount spent, in `unit`; unknown bills count as the most they can be."""
    left: float
    """The amount left, in `unit`; for an agent the reserve for the final answer."""
    tokens: Spending
    """Tokens spent by model."""
    asked: str
    """The end of the message that the model was about to be asked, or the question."""


class BudgetDecision(BaseModel, use_attribute_docstrings=True):
    """The value that resumes a paused run: `Command(resume={"action": "raise", "by": 2000})`."""

    action: Decision
    """raise: go on with more. finish: answer out of the reserve. stop: end with a message."""
    by: float | None = Field(None, gt=0, allow_inf_nan=False)
    """For raise: tokens or dollars, in the budget's unit."""

    @model_validator(mode="after")
    def _has_amount(self) -> Self:
        if self.action == "raise" and self.by is None:
            msg = "the action 'raise' needs an amount: set 'by'"
            raise ValueError(msg)
        return self


def pause_of(account: Budget, error: BudgetUsedUpError, prompt: str) -> BudgetPause:
    """Return what a pause tells of an account that has too little left for a prompt."""
    return BudgetPause(
        reason=str(error),
        unit=account.unit,
        total=account.total,
        spent=account.spent + account.unknown,
        left=account.left_with_kept,
        tokens=account.spending,
        asked=prompt[-_MAX_SHOWN:],
    )


def read_decision(account: Budget, pause: BudgetPause, *, is_new: bool = True) -> Decision:
    """Interrupt the run for a decision, and raise the account's total if that is newly decided."""
    decision = interrupt(pause, response_schema=BudgetDecision)
    if is_new and decision.by is not None and decision.action == "raise":
        is_money = account.unit == "dollars"
        account.raise_to(account.total + (decision.by if is_money else int(decision.by)))
    return decision.action


class Journal:
    """Keep the outcomes of a node's calls beside the checkpoint that the node started from.

    The entries are pending writes of none of LangGraph's tasks: LangGraph ignores them, and deletes
    them with their checkpoint. They are found by the request and by the node's task id, which stays
    the same when the node restarts.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any], info: ExecutionInfo, io: IO) -> None:
        self._saver, self._task, self._io = saver, UUID(info.task_id), io
        self._asked: Counter[str] = Counter()
        self._stored: dict[str, Any] | None = None
        here = get_config()["configurable"]
        place = {name: value for name, value in here.items() if not name.startswith("__")}
        namespace = info.checkpoint_ns.rpartition("|")[0]
        place |= {"checkpoint_ns": namespace, "checkpoint_id": info.checkpoint_id}
        self._config: RunnableConfig = {"configurable": place}

    async def find(self, request: object) -> tuple[str, Any]:
        """Return the key of a request, and its entry or None; the n-th time, those of the n-th."""
        digest = hashlib.sha256(json.dumps(request, default=str).encode()).hexdigest()
        self._asked[digest] += 1
        key = str(uuid5(self._task, f"{digest} {self._asked[digest]}"))
        if self._stored is None:
            found = await self._io.call(self._saver.get_tuple, self._saver.aget_tuple, self._config)
            writes = (found.pending_writes if found else None) or []
            self._stored = {name: entry for name, channel, entry in writes if channel == _CHANNEL}
        return key, self._stored.get(key)

    async def write(self, key: str, entry: object) -> None:
        """Store the entry of a request."""
        saver, writes = self._saver, [(_CHANNEL, entry)]
        await self._io.call(saver.put_writes, saver.aput_writes, self._config, writes, key)
