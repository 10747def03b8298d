"""Shows the final answer, while it is written, to a host that streams ``messages``."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from langchain_core.messages import AIMessageChunk
from langgraph.graph.message import push_message

from pb_graph.runtime.langgraph_internals import someone_takes_tokens

if TYPE_CHECKING:
    from pb_graph.models.options import OnText
    from pb_graph.state import State

MESSAGE_NAME = "plan_and_budget"


class AnswerStream:
    """What of the answer a node has shown, as pieces of one message.

    What was shown and then came to nothing (an attempt that broke off) cannot be taken back: the
    answer begins again as another message, and only that one gets into the state.
    """

    def __init__(self) -> None:
        self._id = str(uuid4())
        self._shown: list[str] = []
        self._follows = ""
        self._gap = ""

    def on_text(self, follows: str | None) -> OnText | None:
        """Whom to tell of the next reply while it is written; None when nobody would see it."""
        if follows is None or not someone_takes_tokens():
            return None
        self._follows = follows
        return self._tell

    def finish(self, text: str) -> None:
        """Show what is still missing of a reply; one that failed is ``""``, and is not shown."""
        self._show((self._follows + text).strip())

    def update(self) -> State:
        """For the state: the id under which the answer was shown."""
        return {"answer_id": self._id} if self._shown else {}

    def _tell(self, piece: str | None) -> None:
        if piece is None:
            self._show(self._follows.strip())
            self._gap = self._follows[len(self._follows.rstrip()) :] if self._shown else ""
        else:
            self._push(self._gap + piece)
            self._gap = ""

    def _show(self, said: str) -> None:
        shown = "".join(self._shown)
        if not said.startswith(shown):
            self._id, self._shown, shown = str(uuid4()), [], ""
        self._push(said[len(shown) :])

    def _push(self, piece: str) -> None:
        if piece:
            message = AIMessageChunk(content=piece, name=MESSAGE_NAME, id=self._id)
            push_message(message, state_key=None)
            self._shown.append(piece)
