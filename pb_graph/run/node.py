"""The nodes of a graph, made of functions for sync and async runs alike."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from langchain_core.runnables import Runnable
from langgraph.runtime import get_runtime
from langgraph.types import Overwrite

from pb_graph.budget.account import Budget
from pb_graph.budget.rules import QuestionLimit
from pb_graph.budget.scope import use_budget
from pb_graph.models.client import IO, AsyncIO, BlockingIO, run_sync
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
        run = Run(self._models, settings, context, self._options, io, state)
        with ExitStack() as around:
            for account in self._accounts(run):
                around.enter_context(use_budget(account))
            given = self._function(state, run)
            update = await given if inspect.isawaitable(given) else given
        calls = run.state_update(self.name)
        if self._is_entry:  # the warnings in the state are an earlier question's, too
            opening["warnings"] = cast("Any", Overwrite(calls.get("warnings", [])))
        return cast("State", {**update, **calls, **opening})

    def _accounts(self, run: Run) -> Iterator[Budget]:
        """Yield the accounts that a run draws on: a shared one, and the limit of its settings."""
        shared = self._models.budget if run.context.budget is None else run.context.budget
        if isinstance(shared, int):  # of this run alone, which has spent some of it
            shared = Budget(shared)
            shared.charge(run.earlier)
        if shared is not None:
            yield shared
        if isinstance(run.settings.budget, QuestionLimit):
            identity, prices = run.state["run_id"], run.options.prices
            yield self._models.open_limit(identity, run.settings.budget, prices, run.earlier)
