"""Chance that falls the same on every machine."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Dice"]

_Item = TypeVar("_Item")


class Dice:
    """Deterministic chance: the same key gives the same throws in every Python, everywhere."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._throws = 0

    def between(self, low: int, high: int) -> int:
        """Give a whole number from low to high, both included."""
        self._throws += 1
        digest = hashlib.sha256(f"{self._key}#{self._throws}".encode()).digest()
        return low + int.from_bytes(digest, "big") % (high - low + 1)

    def pick(self, items: Sequence[_Item]) -> _Item:
        """Give one of the items."""
        return items[self.between(0, len(items) - 1)]

    def shuffled(self, items: Sequence[_Item]) -> list[_Item]:
        """Give the items in drawn order."""
        left = list(items)
        return [left.pop(self.between(0, len(left) - 1)) for _ in items]
