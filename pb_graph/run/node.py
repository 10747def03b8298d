"""Run a function as a node of the graph, within the limits that its calls draw on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, cast
from uuid import uuid4

from langchain_core.runnables import Runnable
from langgraph.runtime import get_runtime
from langgraph.types import Command, Overwrite

from pb_graph.budget.account import Budget, use_budget
from pb_graph.budget.allocation import Limit
from pb_graph.models.reply import ASYNC, BLOCKING, IO, run_sync
from pb_graph.run.parts import GraphParts, remember
from pb_graph.run.run import Run
from pb_graph.settings import Context, Settings
from pb_graph.state import State

_Function = Callable[[Any, Run], State | Awaitable[State]]


class Node(Runnable[Any, State | Command[str]]):
    """A graph node: LangGraph's side of a run, and the limits that the run's calls draw on.

    LangGraph has begun the run and set its context, which a ``RunnableLambda`` would do once more.

    Args:
        function: Takes the state, or the `SolveTask` that was sent, and the run, and returns keys
            of the state. Its name is the node's. A coroutine only awaits methods of its `Run`.
        is_entry: Whether the settings are those of graph and context, not those in the state.
    """

    def __init__(self, function: _Function, parts: GraphParts, *, is_entry: bool) -> None:
        self.name: str = function.__name__
        self._function, self._parts, self._is_entry = function, parts, is_entry

    # LangChain's signature. The config is in the context as well.
    def invoke(self, input: Any, *_: Any, **__: Any) -> State | Command[str]:  # noqa: A002, ANN401
        """Return what the node adds to the state, and where to go."""
        return run_sync(self._run(input, BLOCKING))

    async def ainvoke(self, input: Any, *_: Any, **__: Any) -> State | Command[str]:  # noqa: A002, ANN401
        """Return what the node adds to the state, and where to go."""
        return await self._run(input, ASYNC)

    async def _run(self, state: Any, io: IO) -> State | Command[str]:  # noqa: ANN401
        runtime = get_runtime()
        parts, raw = self._parts, cast("Any", runtime.context)
        context = Context() if raw is None else Context.resolve(raw)
        if self._is_entry:
            settings = parts.settings
            if raw is not None:
                program = await parts.program_of(context.planner_program, io)
                settings = getattr(program, "settings", None) or settings
                settings = settings.merged_with(context.settings)
            # The state may hold the values of an earlier question.
            state = {**state, "run_id": uuid4().hex, "charges": [], "limit": None}
        else:
            written, settings = parts.written or (None, parts.settings)  # not validated again
            if written != state["settings"]:
                settings = Settings.model_validate(state["settings"])
                parts.written = state["settings"], settings
        limit = parts.limit if context.limit is None else context.limit
        run = Run(parts, settings, context, io, state, limit, runtime)
        with ExitStack() as limits:
            for each in filter(None, (limit, settings.limit)):
                limits.enter_context(use_budget(self._account(each, run)))
            result = self._function(state, run)
            update = {**(result if isinstance(result, dict) else await result)}
        if run.settings is not settings:
            update["settings"] = run.settings.model_dump(mode="json")
            parts.written = update["settings"], run.settings
        update |= run.state_update(self.name)
        if self._is_entry:  # drop the warnings of an earlier question
            update |= {"run_id": state["run_id"], "warnings": Overwrite(update.get("warnings", []))}
        return Command(update=update, goto=run.goto) if run.goto else cast("State", update)

    def _account(self, limit: int | Budget | Limit, run: Run) -> Budget:
        """Return the account of a limit; the earlier spending may be that of another process."""
        if isinstance(limit, Budget):
            return limit
        name, parts = run.state["run_id"], self._parts
        account = Budget(limit) if isinstance(limit, int) else Budget(**limit.model_dump())
        if account.unit == "dollars" and parts.prices:
            account.rate = parts.prices
        account.charge(run.earlier, run=name)
        return cast("Budget", remember(parts.accounts, (name, limit), account))
