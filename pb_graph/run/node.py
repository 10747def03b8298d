"""The nodes of a graph, made of functions for sync and async runs alike."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from langchain_core.runnables import Runnable
from langgraph.runtime import get_runtime
from langgraph.types import Overwrite

from pb_graph.budget.account import Budget, use_budget
from pb_graph.budget.ledger import most_billed, spending
from pb_graph.models.io import IO, AsyncIO, BlockingIO, run_sync
from pb_graph.run.models import Models
from pb_graph.run.run import GraphOptions, Run
from pb_graph.settings import Context, Settings
from pb_graph.state import State

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

NodeFunction = Callable[[Any, Run], State | Awaitable[State]]
"""Takes the state, or what was sent to it; returns what it adds to the state."""


def read_settings(state: State) -> Settings:
    """Return the settings that a run keeps in its state, as JSON; they are validated once."""
    return _validated(json.dumps(state["settings"], sort_keys=True))


@lru_cache(maxsize=256)
def _validated(settings: str) -> Settings:
    return Settings.model_validate_json(settings)


class Node(Runnable[Any, State]):
    """A graph node.

    LangGraph starts the node's run and sets its context; a ``RunnableLambda`` would do both again,
    and look at its function's signature, at every call.

    Args:
        function: The node; its name is the node's in checkpoints, streams and reports. A node that
            calls models is a coroutine, which awaits nothing but the methods of its `Run`.
        models: The models and the planner of the graph.
        options: What the graph was built with besides.
        is_entry: Whether this is the first node. It takes the graph's settings and the run's
            context; the others take the settings that it wrote into the state, so that a query
            that is resumed keeps the settings it began with.
    """

    def __init__(
        self,
        function: NodeFunction,
        models: Models,
        options: GraphOptions | None = None,
        *,
        is_entry: bool = False,
    ) -> None:
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self._function, self._models, self._is_entry = function, models, is_entry
        self._options = options or GraphOptions()

    def invoke(
        self,
        input: Any,  # noqa: A002, ANN401 -- LangChain's name; the state
        config: RunnableConfig | None = None,  # noqa: ARG002 -- is the context's, too
        **_: Any,  # noqa: ANN401
    ) -> State:
        """Return what the node adds to the state."""
        return run_sync(self._run(input, BlockingIO()))

    async def ainvoke(
        self,
        input: Any,  # noqa: A002, ANN401
        config: RunnableConfig | None = None,  # noqa: ARG002
        **_: Any,  # noqa: ANN401
    ) -> State:
        """Return what the node adds to the state."""
        return await self._run(input, AsyncIO())

    async def _run(self, state: Any, io: IO) -> State:  # noqa: ANN401
        found = get_runtime().context
        context = Context() if found is None else Context.resolve(found)
        opening: State = {}
        if self._is_entry:
            settings = self._models.settings.merged_with(context.settings)
            if context.planner_program is not None:  # which may be a file
                settings = await io.load(self._models.run_settings, context)
            # Those in the state are an earlier question's.
            state = {**state, "disabled_models": {}, "charges": [], "ceiling": None}
            opening = {"run_id": uuid4().hex}
            state |= opening
        else:
            settings = read_settings(state)
        shared = self._models.budget if context.budget is None else context.budget
        if isinstance(shared, int):  # of this run alone, which has spent some of it
            shared = Budget(shared)
            shared.charge(state.get("spent", most_billed(state.get("charges") or [])))
        run = Run(self._models, settings, context, options=self._options, io=io, state=state)
        earlier = state.get("spent") or spending(state.get("charges") or [])
        limit = self._models.open_limit(
            state.get("run_id", ""), settings, self._options.prices, earlier
        )
        with use_budget(shared or None), use_budget(limit):
            given = self._function(state, run)
            update = await given if inspect.isawaitable(given) else given
        calls = run.state_update(self.name, update.get("warnings", []))
        if self._is_entry:  # the warnings in the state are an earlier question's, too
            opening["warnings"] = cast("Any", Overwrite(calls.get("warnings", [])))
        return cast("State", {**update, **calls, **opening})
