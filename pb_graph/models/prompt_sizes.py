"""Remember the size of prompts that this process has sent, and how many tokens their bytes had.

The usage of a message tells the size of the prompt that it answered, which need not be the prompt
that it stands in now. So a size is known only for messages that were sent and settled here.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

_MARGIN = 1.25  # over the most tokens per byte that were seen
_MIN_LEARNED = 400  # bytes: of shorter prompts, the template is too large a part
_MAX_PROMPTS = 10_000
_PLAIN = re.compile(r"(?<![A-Za-z])[A-Z]?[a-z]{1,15}(?![A-Za-z])| ")


def digests_of(messages: Sequence[BaseMessage], start: object = "") -> list[str]:
    """Return a digest of each beginning of a prompt, from its first message to the whole.

    Marks for a prompt cache do not count, because they move.

    Args:
        messages: The prompt.
        start: What stands before the messages, such as the tools.
    """
    running, digests = hashlib.sha256(repr(start).encode(errors="replace")), []
    for message in messages:
        content: Any = message.content
        if not isinstance(content, str):
            content = [_unmarked(block) for block in content]
        calls = [getattr(message, name, None) for name in ("tool_calls", "tool_call_id")]
        parts = message.type, content, calls, message.additional_kwargs
        running.update(repr(parts).encode(errors="replace"))
        digests.append(running.hexdigest())
    return digests


def _unmarked(block: Any) -> Any:  # noqa: ANN401 -- text, or a block of any type
    if not isinstance(block, dict):
        return block
    return {name: value for name, value in block.items() if name != "cache_control"}


@dataclass(frozen=True, slots=True)
class TextSize:
    """The bytes of a text, and those of them that are not plain words and spaces."""

    size: int
    odd: int

    @classmethod
    def of(cls, text: str) -> TextSize:
        """Measure a text."""
        size = len(text.encode(errors="replace"))
        return cls(size, size - sum(map(len, _PLAIN.findall(text))))


class Ratio(NamedTuple):
    """Keep what the calls to one model have shown.

    Attributes:
        tokens: The most tokens for a byte.
        odd: The smallest share of bytes that are not plain words and spaces.
        smallest: Bytes of the smallest prompt.
    """

    tokens: float
    odd: float
    smallest: int


class PromptSizes:
    """Sizes of prompts, as the settled calls of this process tell them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: OrderedDict[str, int] = OrderedDict()
        self._ratios: dict[str, Ratio] = {}

    def known(self, digests: Sequence[str]) -> tuple[int, int]:
        """Return how many messages have a known size, and their tokens.

        Args:
            digests: Those of the prompt's beginnings.
        """
        with self._lock:
            for number in range(len(digests), 0, -1):
                if tokens := self._tokens.get(digests[number - 1]):
                    return number, tokens
        return 0, 0

    def add(self, digest: str, tokens: int) -> None:
        """Remember the tokens of a prompt."""
        with self._lock:
            self._tokens[digest] = tokens
            if len(self._tokens) > _MAX_PROMPTS:
                self._tokens.popitem(last=False)

    def learn(self, key: str, size: TextSize, tokens: int) -> None:
        """Learn from a settled call how many tokens a byte has.

        Args:
            key: The key of the model, with its server.
            size: Size of all texts of the call.
            tokens: Input tokens that the provider reported.
        """
        if size.size >= _MIN_LEARNED:
            with self._lock:
                known = self._ratios.get(key) or Ratio(0.0, 1.0, size.size)
                self._ratios[key] = Ratio(
                    max(known.tokens, tokens / size.size),
                    min(known.odd, size.odd / size.size),
                    min(known.smallest, size.size),
                )

    def bound(self, key: str, size: TextSize, *, is_whole: bool) -> int:
        """Return the most tokens that a text may have.

        A text of the kind that was seen has at most the tokens per byte that were seen, with a
        margin. Bytes of other kinds, such as digits and other scripts, count as a token each.

        Args:
            key: The key of the model, with its server.
            size: Size of the text.
            is_whole: Whether the text is a whole prompt, which has as many tokens for the template
                as the smallest prompt that was seen.
        """
        with self._lock:
            seen = self._ratios.get(key)
        if seen is None:
            return size.size
        ratio = min(1.0, seen.tokens * _MARGIN)
        unlike = max(0.0, size.odd - seen.odd * size.size)
        least = seen.smallest if is_whole else 0
        return ceil(ratio * max(size.size, least) + (1 - ratio) * unlike)


PROMPT_SIZES = PromptSizes()
"""The sizes of this process's prompts."""
