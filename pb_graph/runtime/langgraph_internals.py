"""What has no public name in LangGraph and LangChain. Where it is gone, we do without.

Without the handlers' classes no token of an answer is streamed: a host gets the answer as a whole.
Without the checkpointer a node that is cut off between two calls makes the finished one again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.config import get_config
from langgraph.runtime import get_runtime

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

# Where LangGraph puts the checkpointer of the outermost graph for the graphs within.
_CHECKPOINTER = "__pregel_checkpointer"

try:
    from langchain_core.tracers._streaming import _StreamingCallbackHandler as TokenHandler
    from langchain_core.tracers._streaming import _V2StreamingCallbackHandler as EventHandler
    from langgraph.pregel._messages import StreamMessagesHandler
except ImportError:
    STREAMS = False
else:
    STREAMS = True


def checkpointer() -> BaseCheckpointSaver[Any] | None:
    """The checkpointer of the run that the caller is part of."""
    found: BaseCheckpointSaver[Any] | None = get_config()["configurable"].get(_CHECKPOINTER)
    return found


def someone_takes_tokens() -> bool:
    """Whether a handler takes tokens; that of a host that streams no subgraphs takes none of ours.

    Handlers of LangChain's newer protocol know no chunks: they get the answer as a whole.
    """
    callbacks, info = get_config().get("callbacks"), get_runtime().execution_info
    above = tuple(info.checkpoint_ns.split("|")[:-1]) if info else ()
    handlers = getattr(callbacks, "handlers", ()) if STREAMS else ()
    return any(_takes_tokens(handler, above) for handler in handlers)


def _takes_tokens(handler: object, above: tuple[str, ...]) -> bool:
    if isinstance(handler, EventHandler):
        return False
    if isinstance(handler, StreamMessagesHandler):
        return handler.subgraphs or not above or above == handler.parent_ns
    return isinstance(handler, TokenHandler)
