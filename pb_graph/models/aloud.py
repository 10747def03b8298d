"""A reply that is heard while it is written: what can be read of it so far, and the whole."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, AIMessageChunk

from pb_graph.models.usage import visible_text

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

Hears = Callable[[str], None]
"""Is told the visible text of a reply so far, each time that there is more of it."""

_REASONS = ("finish_reason", "stop_reason", "status")
_HALF_TAG = re.compile(r"<(?:t(?:h(?:i(?:nk?)?)?)?)?\Z")


class Aloud:
    """Gathers the chunks of one streamed reply.

    Args:
        model: Whose reply it is.
        hears: Whom to tell.
        seconds: How long the reply may take; a client's own time limit starts anew with each chunk.
    """

    def __init__(self, model: BaseChatModel, hears: Hears, seconds: float) -> None:
        # OpenAI's and Anthropic's protocols end with a reason; without it, the stream broke off.
        self._says_why = "stream_usage" in type(model).model_fields
        self._hears = hears
        self._ends = time.perf_counter() + seconds
        self._chunks: list[AIMessageChunk] = []
        self._text = ""

    def add(self, chunk: AIMessageChunk) -> None:
        """Take the next chunk.

        Raises:
            TimeoutError: The reply takes too long.
        """
        if time.perf_counter() > self._ends:
            msg = "the streamed reply took too long"
            raise TimeoutError(msg)
        self._chunks.append(chunk)
        self._text += chunk.text
        self._hears(visible_text(AIMessage(_HALF_TAG.sub("", self._text))))

    def whole(self) -> AIMessage:
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
