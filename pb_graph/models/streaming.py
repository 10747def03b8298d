"""A reply that is read while it is written: the visible text piece by piece, then the whole."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, AIMessageChunk

from pb_graph.models.caps.openai import is_openai_like
from pb_graph.models.reply import passes_cap

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import OnText

_CHARACTERS_A_TOKEN = 4
_LONGEST_PIECE = 16  # characters on average
_REASONS = ("finish_reason", "stop_reason", "status")
_OPEN, _CLOSED = "<think>", "</think>"
_HALF_TAG = re.compile(r"(?:<(?:/?(?:t(?:h(?:i(?:nk?)?)?)?)?)?)?\Z")


class StreamedReply:
    """Gathers the chunks of one streamed reply.

    Args:
        model: Whose reply it is.
        on_text: Whom to tell of the text, in time that grows with its length and no faster; None
            if nobody wants to be told.
        seconds: How long the reply may take; a client's own time limit starts anew with each chunk.
        cap: Completion tokens that were asked for.
    """

    def __init__(
        self, model: BaseChatModel, on_text: OnText | None, seconds: float, cap: int
    ) -> None:
        # OpenAI's and Anthropic's protocols end with a reason; without it, the stream broke off.
        self._says_why = "stream_usage" in type(model).model_fields
        # Where each report of usage is a sum so far; other protocols report differences.
        self._counts_up = is_openai_like(model)
        self._on_text = on_text
        self._given_up = False
        self._pieces = 0
        self._cap, self._characters = cap, 0
        self._ends = time.perf_counter() + seconds
        self._chunks: list[AIMessageChunk] = []
        self._held = ""
        self._thinks = self._told = False
        if on_text:
            on_text(None)

    def add(self, chunk: AIMessageChunk) -> None:
        """Take the next chunk.

        Raises:
            TimeoutError: The reply takes too long, or was given up already.
        """
        if self._given_up or time.perf_counter() > self._ends:
            msg = "the streamed reply took too long"
            raise TimeoutError(msg)
        self._chunks.append(chunk)
        self._characters += len(chunk.text)
        # One without text is hidden thinking; but the first only says whose reply it is, and
        # LangChain adds a last one.
        last = getattr(chunk, "chunk_position", None) == "last"
        self._pieces += bool(chunk.text) or (len(self._chunks) > 1 and not last)
        if self._on_text and (visible := self._visible(chunk.text)):
            self._told = True
            self._on_text(visible)

    def give_up(self) -> None:
        """Tell nothing more, whoever may still be reading the stream."""
        self._given_up, self._on_text = True, None

    @property
    def is_over(self) -> bool:
        """Whether it is far beyond its cap: more text has come than the cap can carry."""
        return passes_cap(self._characters // _CHARACTERS_A_TOKEN, self._cap)

    @property
    def counted(self) -> int:
        """Tokens so far: the pieces, hidden thinking too; 0 if these are too long for tokens."""
        return self._pieces if self._characters < _LONGEST_PIECE * self._pieces else 0

    @property
    def begun(self) -> bool:
        """Whether anything of the reply has come, be it hidden thinking."""
        return self._pieces > 0

    @property
    def arrived(self) -> str:
        """The text so far, visible or not."""
        return "".join(chunk.text for chunk in list(self._chunks))

    def message(self) -> AIMessage:
        """The reply.

        Raises:
            ConnectionError: The stream ended before the reply did.
        """
        if self.is_over:  # what it cost in the end, nobody will tell
            return AIMessage(self.arrived, response_metadata={"finish_reason": "length"})
        reports = [chunk.usage_metadata for chunk in self._chunks if chunk.usage_metadata]
        if not self._chunks:
            msg = "the stream was empty"
            raise ConnectionError(msg)
        single = self._counts_up and len(reports) > 1
        bare = [chunk.model_copy(update={"usage_metadata": None}) for chunk in self._chunks]
        first, *rest = bare if single else self._chunks
        message = first + rest if rest else first
        # LangChain joins what is said twice, as by OpenRouter's chunk of usage: 'lengthlength'.
        for name in _REASONS:
            told = [chunk.response_metadata.get(name) for chunk in self._chunks]
            if len(said := [*filter(None, told)]) > 1:
                message.response_metadata[name] = said[-1]
        if single:
            message.usage_metadata = reports[-1]
        reasons = [message.response_metadata.get(name) for name in _REASONS]
        told_all = message.usage_metadata is not None and not message.text
        if self._says_why and not any(reasons) and not told_all:
            msg = "the stream ended before the reply did"
            raise ConnectionError(msg)
        return message

    def rescued(self) -> AIMessage | None:
        """The reply of a stream that broke off after the reply had ended: only the usage is lost.

        None if it had not, or this cannot be known.
        """
        reasons = (chunk.response_metadata.get("finish_reason") for chunk in self._chunks)
        reason = next(filter(None, reasons), None)
        if not reason or not self.arrived:
            return None
        return AIMessage(self.arrived, response_metadata={"finish_reason": reason})

    def _visible(self, piece: str) -> str:
        """What can be told of the text with this piece: `visible_text`, one piece at a time."""
        text = self._held + piece.encode(errors="replace").decode()
        _, closed, after = text.rpartition(_CLOSED)
        if closed:  # all that came before was thinking, whether or not that was said
            text, self._thinks = after, False
            if self._told and self._on_text:
                self._told = False
                self._on_text(None)
        before, opened, after = text.partition(_OPEN) if not self._thinks else ("", "go", text)
        if opened:
            shown, self._held, self._thinks = before.rstrip(), after[-len(_CLOSED) :], True
        else:  # an end that is undecided is held back, and so are blanks before it
            shown = before[: _HALF_TAG.search(before).start()].rstrip()  # type: ignore[union-attr]
            self._held = before[len(shown) :]
        return shown if self._told else shown.lstrip()
