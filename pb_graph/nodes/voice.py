"""Shows the final answer, while it is written, to a host that streams ``messages``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain_core.messages import AIMessageChunk
from langchain_core.tracers._streaming import (
    _StreamingCallbackHandler,
    _V2StreamingCallbackHandler,
)
from langgraph.config import get_config
from langgraph.graph.message import push_message
from langgraph.pregel._messages import StreamMessagesHandler
from langgraph.runtime import get_runtime

from pb_graph.models.reply import Reply
from pb_graph.nodes.contract import Ask, Say

if TYPE_CHECKING:
    from pb_graph.models.aloud import Hears

MESSAGE_NAME = "plan_and_budget"


class Voice:
    """What of the answer a node has shown, as pieces of one message.

    What was shown and then came to nothing (an attempt that broke off) cannot be taken back: the
    answer begins again as another message, and only that one gets into the state.
    """

    def __init__(self) -> None:
        self._id = str(uuid4())
        self._shown = ""

    def hears(self, wish: Say | Ask) -> Hears | None:
        """Whom to tell of a reply while it is written; None when nobody would see it."""
        if isinstance(wish, Ask) or wish.follows is None or not _listened():
            return None
        return partial(self._reply, wish.follows)

    def settle(self, wish: Say | Ask, outcome: object) -> None:
        """Show what is still missing of a reply, or take leave of what came to nothing."""
        if hears := self.hears(wish):
            hears(outcome.text if isinstance(outcome, Reply) else "")

    def note(self) -> dict[str, Any]:
        """For the state: the id under which the answer was shown."""
        return {"answer_id": self._id} if self._shown else {}

    def _reply(self, follows: str, text: str) -> None:
        said = (follows + text).strip()
        if not said.startswith(self._shown):
            self._id, self._shown = str(uuid4()), ""
        if rest := said[len(self._shown) :]:
            piece = AIMessageChunk(content=rest, name=MESSAGE_NAME, id=self._id)
            push_message(piece, state_key=None)
            self._shown = said


def _listened() -> bool:
    """Whether a handler takes tokens; that of a host that streams no subgraphs takes none of ours.

    Handlers of LangChain's newer protocol know no chunks: they get the answer as a whole.
    """
    callbacks, info = get_config().get("callbacks"), get_runtime().execution_info
    above = tuple(info.checkpoint_ns.split("|")[:-1]) if info else ()
    return any(_takes_tokens(handler, above) for handler in getattr(callbacks, "handlers", ()))


def _takes_tokens(handler: object, above: tuple[str, ...]) -> bool:
    if isinstance(handler, _V2StreamingCallbackHandler):
        return False
    if isinstance(handler, StreamMessagesHandler):
        return handler.subgraphs or not above or above == handler.parent_ns
    return isinstance(handler, _StreamingCallbackHandler)
