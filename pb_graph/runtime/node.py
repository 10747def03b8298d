"""Nodes and conditional edges of a graph, made of functions for sync and async runs alike.

A node that calls models is an ordinary coroutine, and is written once. In a blocking run everything
that it awaits blocks instead, so that it is over at the first step.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from langchain_core.runnables import Runnable
from langgraph.runtime import get_runtime

from pb_graph.budget.context import accounts_in_scope, use_budget
from pb_graph.budget.ledger import most_billed
from pb_graph.models.io import run_sync
from pb_graph.runtime.budgeted_call import GraphOptions, NodeContext
from pb_graph.runtime.calls import ModelCalls
from pb_graph.settings import Context, Settings
from pb_graph.state import State

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.types import Send

    from pb_graph.runtime.registry import ModelRegistry

__all__ = ["Edge", "GraphOptions", "Node", "NodeContext"]


NodeFunction = Callable[[Any, NodeContext], State | Awaitable[State]]
"""Takes the state, or what was sent to it; returns what it adds to the state."""


class Node(Runnable[Any, State]):
    """A graph node.

    LangGraph starts the node's run and sets its context; a ``RunnableLambda`` would do both again,
    and look at its function's signature, at every call.

    Args:
        function: The node; its name is the node's in checkpoints, streams and reports.
        registry: Has the models.
        options: What the graph was built with besides.
        opens: Whether it is the first node. That one goes by the graph's settings and the run's
            context; the others go by what it then wrote into the state, so that a query that is
            resumed keeps the settings it began with.
    """

    def __init__(
        self,
        function: NodeFunction,
        registry: ModelRegistry,
        options: GraphOptions | None = None,
        *,
        opens: bool = False,
    ) -> None:
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self._function, self._registry, self._opens = function, registry, opens
        self._options = options or GraphOptions()

    def invoke(
        self,
        input: Any,  # noqa: A002, ANN401 -- LangChain's name; the state
        config: RunnableConfig | None = None,  # noqa: ARG002 -- is the context's, too
        **_: Any,  # noqa: ANN401
    ) -> State:
        """What the node adds to the state."""
        return run_sync(self._update(input, blocking=True))

    async def ainvoke(
        self,
        input: Any,  # noqa: A002, ANN401
        config: RunnableConfig | None = None,  # noqa: ARG002
        **_: Any,  # noqa: ANN401
    ) -> State:
        """What the node adds to the state."""
        return await self._update(input, blocking=False)

    async def _update(self, state: Any, *, blocking: bool) -> State:  # noqa: ANN401
        context = Context.resolve(get_runtime().context)
        opening: State = {}
        if self._opens:
            settings = await self._registry.settings_of(context, blocking=blocking)
            opening = {"brought": context.brought, "run_id": uuid4().hex}
        else:
            settings = Settings.model_validate(state["settings"])
            context = context.going_on(state.get("brought", {}))
        unusable = {} if self._opens else state.get("unusable") or {}
        calls = ModelCalls(self._registry, settings, context, blocking=blocking, unusable=unusable)
        with use_budget(self._registry.shared_budget(context)):
            if not self._opens:  # a run that goes on after a pause, in an agent that does not know
                earlier = state.get("spent", most_billed(state.get("charges", [])))
                for around in accounts_in_scope():
                    around.count_earlier(state["run_id"], earlier)
            given = self._function(state, NodeContext(settings, calls, self._options))
            update = await given if inspect.isawaitable(given) else given
        account = calls.account(self.name, update.get("warnings", []))
        return cast("State", {**update, **account, **opening})


Decision = Callable[[Any, Settings], "str | list[Send]"]
"""Tells from the state, and the run's settings, which nodes come next; it must not block."""


class Edge(Runnable[Any, "str | list[Send]"]):
    """A conditional edge that is decided where the graph runs.

    LangGraph hands a plain function to a thread when it runs in an event loop, which costs more
    than the decision itself.
    """

    def __init__(self, decide: Decision) -> None:
        self.name = decide.__name__
        self._decide = decide

    def invoke(
        self,
        input: Any,  # noqa: A002, ANN401 -- LangChain's name; as the graph's schema says
        config: RunnableConfig | None = None,  # noqa: ARG002
        **_: Any,  # noqa: ANN401
    ) -> str | list[Send]:
        """Which nodes come next."""
        return self._decide(input, Settings.model_validate(input["settings"]))

    async def ainvoke(
        self,
        input: Any,  # noqa: A002, ANN401
        config: RunnableConfig | None = None,  # noqa: ARG002
        **_: Any,  # noqa: ANN401
    ) -> str | list[Send]:
        """Which nodes come next."""
        return self.invoke(input)
