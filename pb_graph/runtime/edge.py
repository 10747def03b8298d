"""A conditional edge that is decided where the graph runs.

LangGraph hands a plain function to a thread when it runs in an event loop, which costs more than
the decision itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.types import Send

Decision = Callable[[Any], "str | list[Send]"]
"""Tells from the state which nodes come next; it must not block."""


class Edge(Runnable[Any, "str | list[Send]"]):
    """A conditional edge made of a decision, for sync and async runs alike."""

    def __init__(self, decide: Decision) -> None:
        """Take the decision."""
        self.name = decide.__name__
        self._decide = decide

    def invoke(
        self,
        input: Any,  # noqa: A002, ANN401 -- LangChain's name; as the graph's schema says
        config: RunnableConfig | None = None,  # noqa: ARG002
        **_: Any,  # noqa: ANN401
    ) -> str | list[Send]:
        """Which nodes come next."""
        return self._decide(input)

    async def ainvoke(
        self,
        input: Any,  # noqa: A002, ANN401
        config: RunnableConfig | None = None,  # noqa: ARG002
        **_: Any,  # noqa: ANN401
    ) -> str | list[Send]:
        """Which nodes come next."""
        return self._decide(input)
