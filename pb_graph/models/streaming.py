"""A reply that is read while it is written: the visible text piece by piece, then the whole."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessageChunk

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage

OnText = Callable[[str | None], None]
"""Is told the next piece of a reply's visible text; None says that the reply begins (anew)."""

_REASONS = ("finish_reason", "stop_reason", "status")
_OPEN, _CLOSED = "<think>", "</think>"
_HALF_TAG = re.compile(r"(?:<(?:/?(?:t(?:h(?:i(?:nk?)?)?)?)?)?)?\Z")


class StreamedReply:
    """Gathers the chunks of one streamed reply.

    Args:
        model: Whose reply it is.
        on_text: Whom to tell of the text, in time that grows with its length and no faster.
        seconds: How long the reply may take; a client's own time limit starts anew with each chunk.
    """

    def __init__(self, model: BaseChatModel, on_text: OnText, seconds: float) -> None:
        # OpenAI's and Anthropic's protocols end with a reason; without it, the stream broke off.
        self._says_why = "stream_usage" in type(model).model_fields
        self._on_text: OnText | None = on_text
        self._ends = time.perf_counter() + seconds
        self._chunks: list[AIMessageChunk] = []
        self._held = ""
        self._thinks = self._told = False
        on_text(None)

    def add(self, chunk: AIMessageChunk) -> None:
        """Take the next chunk.

        Raises:
            TimeoutError: The reply takes too long, or was given up already.
        """
        if self._on_text is None or time.perf_counter() > self._ends:
            msg = "the streamed reply took too long"
            raise TimeoutError(msg)
        self._chunks.append(chunk)
        if visible := self._visible(chunk.text):
            self._told = True
            self._on_text(visible)

    def give_up(self) -> None:
        """Tell nothing more, whoever may still be reading the stream."""
        self._on_text = None

    def message(self) -> AIMessage:
        """The reply.

        Raises:
            ConnectionError: The stream ended before the reply did.
        """
        if not self._chunks:
            msg = "the stream was empty"
            raise ConnectionError(msg)
        first, *rest = self._chunks
        message = first + rest if rest else first
        reasons = [message.response_metadata.get(name) for name in _REASONS]
        if self._says_why and not any(reasons):
            msg = "the stream ended before the reply did"
            raise ConnectionError(msg)
        return message

    def _visible(self, piece: str) -> str:
        """What can be told of the text with this piece: `visible_text`, one piece at a time."""
        text = self._held + piece.encode(errors="replace").decode()
        _, closed, after = text.rpartition(_CLOSED)
        if closed:  # all that came before was thinking, whether or not that was said
            self._restart()
            text = after
        before, opened, after = text.partition(_OPEN) if not self._thinks else ("", "go", text)
        if opened:
            shown, self._held, self._thinks = before.rstrip(), after[-len(_CLOSED) :], True
        else:  # an end that is undecided is held back, and so are blanks before it
            shown = before[: _HALF_TAG.search(before).start()].rstrip()  # type: ignore[union-attr]
            self._held = before[len(shown) :]
        return shown if self._told else shown.lstrip()

    def _restart(self) -> None:
        self._thinks = False
        if self._told and self._on_text:
            self._told = False
            self._on_text(None)
