"""A conditional edge that is decided where the graph runs.

LangGraph hands a plain function to a thread when it runs in an event loop, which costs more than
the decision itself.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableLambda

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable
    from langgraph.types import Send

Decision = Callable[[Any], "str | list[Send]"]
"""Tells from the state which nodes come next; it must not block."""


def edge(decide: Decision) -> Runnable[Any, str | list[Send]]:
    """Make a conditional edge out of ``decide``, for sync and async runs alike."""

    async def adecide(state: Any) -> str | list[Send]:  # noqa: ANN401 -- as the graph's schema says
        return decide(state)

    runnable = RunnableLambda(decide, adecide)
    for function in (decide, adecide):
        vars(function)["__signature__"] = signature(function)  # LangChain asks at every call
    return runnable
