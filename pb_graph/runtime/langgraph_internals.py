"""What has no public name in LangGraph and LangChain. Where it is gone, we do without.

Without the handlers' classes no token of an answer is streamed: a host gets the answer as a whole.
Without the checkpointer a node that is cut off between two calls makes the finished one again.
Without what reads a host's state, a key that a host's function mistypes is not noticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.config import get_config
from langgraph.runtime import get_runtime

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

# Where LangGraph puts the checkpointer of the outermost graph for the graphs within.
_CHECKPOINTER = "__pregel_checkpointer"

# Where it puts what reads the state of the graph whose node is at work.
_READ = "__pregel_read"

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


def host_has(key: object, config: RunnableConfig) -> bool:
    """Whether the state of the host's graph has a key; also where there is no telling.

    Args:
        key: Of what the host's node, or a function that it calls, hands on.
        config: Of that node.
    """
    read = config["configurable"].get(_READ)
    try:
        if read is not None:
            read([key])
    except KeyError:
        return False
    return True


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
