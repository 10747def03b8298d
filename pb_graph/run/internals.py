"""Names that are private in LangGraph. Without the checkpointer no call is kept for a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.config import get_config

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

# Where LangGraph puts the checkpointer of the outermost graph for the graphs within.
_CHECKPOINTER = "__pregel_checkpointer"


def checkpointer() -> BaseCheckpointSaver[Any] | None:
    """Return the checkpointer of the run that the caller is part of."""
    found: BaseCheckpointSaver[Any] | None = get_config()["configurable"].get(_CHECKPOINTER)
    return found
