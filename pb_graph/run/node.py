"""A graph node: LangGraph's side of a run, and the limits that the run's calls draw on."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, cast
from uuid import uuid4

from langchain_core.runnables import Runnable
from langgraph.runtime import get_runtime
from langgraph.types import Command, Overwrite, Send

from pb_graph.budget.account import Budget
from pb_graph.budget.rates import Dollars
from pb_graph.budget.rules import Limit
from pb_graph.budget.scope import use_budget
from pb_graph.context import Context
from pb_graph.models.reply import ASYNC, BLOCKING, IO, run_sync
from pb_graph.run.models import GraphOptions, Models
from pb_graph.run.run import Run
from pb_graph.settings import Settings
from pb_graph.state import State
from pb_graph.types import Spending

_MAX_RUNS = 1000  # accounts that a graph keeps; abandoned runs count as well


class Runs:
    """Keep what the nodes of a graph share: the accounts of runs' limits, and the last settings."""

    def __init__(self) -> None:
        self._accounts: dict[tuple[str, int | Limit], Budget] = {}
        self._lock = threading.Lock()  # held for microseconds: an event loop may take it
        self.settings: tuple[object, Settings] | None = None  # the last ones, and as JSON

    def open(
        self, run: str, limit: int | Budget | Limit, prices: Dollars | None, earlier: Spending
    ) -> Budget:
        """Return the account of a limit; all nodes of the run share it.

        Args:
            run: The run's identity.
            limit: The most that the run may cost; a number is completion tokens. A `Budget`, which
                runs share, is returned as it is.
            prices: The prices of the graph.
            earlier: Earlier spending of a run that continues in another process.
        """
        if isinstance(limit, Budget):
            return limit
        with self._lock:
            account = self._accounts.get((run, limit))
            if account is None:
                account = Budget(limit) if isinstance(limit, int) else Budget(**limit.model_dump())
                if account.unit == "dollars" and prices:
                    account.rate = prices
                account.charge(earlier, run=run)
                self._accounts[run, limit] = account
                if len(self._accounts) > _MAX_RUNS:
                    del self._accounts[next(iter(self._accounts))]
            return account


NodeFunction = Callable[[Any, Run], State | Awaitable[State]]
"""Takes the state, or the `SolveTask` that was sent, and the run; returns keys of the state."""
Route = Callable[[State, Settings], str | list[Send]]
"""Takes the state that a node leaves and the settings of the run; returns the next nodes."""


class Node(Runnable[Any, State | Command[str]]):
    """A graph node.

    LangGraph starts the node's run and sets its context; a ``RunnableLambda`` would do both again,
    and look at its function's signature, at every call.

    Args:
        function: The node; its name is the node's in checkpoints, streams and reports. A node that
            calls models is a coroutine that only awaits methods of its `Run`.
        models: The models and the planner of the graph.
        options: Further arguments of `build_graph`.
        runs: The runs of the graph.
        route: Chooses the next node; None where an edge of the graph says it.
        is_entry: Whether this is the first node. It takes the graph's settings and the run's
            context; the others take the settings that it left in the state, so that a query
            that is resumed keeps the settings it began with.
    """

    def __init__(  # noqa: PLR0913 -- all but two have a default
        self,
        function: NodeFunction,
        models: Models,
        options: GraphOptions | None = None,
        runs: Runs | None = None,
        route: Route | None = None,
        *,
        is_entry: bool = False,
    ) -> None:
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self._function, self._models, self._is_entry = function, models, is_entry
        self._options, self._route = options or GraphOptions(), route
        self._runs = runs or Runs()

    # LangChain's signature. The config is in the context as well.
    def invoke(self, input: Any, *_: Any, **__: Any) -> State | Command[str]:  # noqa: A002, ANN401
        """Return what the node adds to the state, and where to go."""
        return run_sync(self._run(input, BLOCKING))

    async def ainvoke(self, input: Any, *_: Any, **__: Any) -> State | Command[str]:  # noqa: A002, ANN401
        """Return what the node adds to the state, and where to go."""
        return await self._run(input, ASYNC)

    async def _run(self, state: Any, io: IO) -> State | Command[str]:  # noqa: ANN401
        raw: Any = get_runtime().context
        models, context = self._models, Context() if raw is None else Context.resolve(raw)
        known = self._runs.settings
        if self._is_entry:
            settings = models.settings if raw is None else await models.run_settings(context, io)
            # The state may hold the values of an earlier question.
            state = {**state, "run_id": uuid4().hex, "charges": [], "limit": None}
        elif known and known[0] == state["settings"]:
            settings = known[1]  # settings are not validated again
        else:
            settings = Settings.model_validate(state["settings"])
            self._runs.settings = state["settings"], settings
        limit = models.limit if context.limit is None else context.limit
        run = Run(models, settings, context, self._options, io, state, limit)
        with ExitStack() as limits:
            for each in (limit, settings.limit):
                if each is not None:
                    prices, identity = self._options.prices, state["run_id"]
                    account = self._runs.open(identity, each, prices, run.earlier)
                    limits.enter_context(use_budget(account))
            result = self._function(state, run)
            update = dict(await result if inspect.isawaitable(result) else result)
        if run.settings is not settings:
            update["settings"] = run.settings.model_dump(mode="json")
            self._runs.settings = update["settings"], run.settings
        next_state = cast("State", state | update)
        update |= run.state_update(self.name)
        if self._is_entry:  # drop the warnings of an earlier question
            update |= {"run_id": state["run_id"], "warnings": Overwrite(update.get("warnings", []))}
        if self._route is None:
            return cast("State", update)
        return Command(update=update, goto=self._route(next_state, run.settings))
