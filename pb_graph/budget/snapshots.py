"""An account as plain JSON: what a checkpoint keeps of it, and how copies are put together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count
from typing import Any
from uuid import uuid4

_PROCESS = uuid4().hex[:12]
_NOBODY = ""
_COLUMNS = ("spent", "unknown")
_TICKS = count(1)


def process() -> str:
    """Tells writers apart, also after a fork."""
    return f"{_PROCESS}.{os.getpid()}"


def tick() -> int:
    """A version that is later than all before, also of an account that was made anew since."""
    return next(_TICKS)


def newer(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Of two snapshots in a graph's state, the one to go on with: a reducer for LangGraph.

    Another account takes the place of the one before.
    """
    if not before or not after or before["id"] != after["id"]:
        return after
    return together(before, after)


def together(before: Mapping[str, Any], after: Mapping[str, Any]) -> Mapping[str, Any]:
    """What two snapshots of one account tell.

    Of one process that is the later one, in whatever order they come; of two processes that which
    knows all of the other, else both, which is then nobody's: whoever goes on with it has something
    to learn.
    """
    if before["by"] == after["by"] != _NOBODY:
        return max(before, after, key=lambda plain: plain["version"])
    for one, other in ((after, before), (before, after)):
        if one["by"] != _NOBODY and _knows(one, other):
            return one
    both = {column: dict(before[column]) for column in _COLUMNS}
    for column, entries in both.items():
        raise_to(entries, after[column])
    grants = {**before["grants"], **after["grants"]}
    for name in before["grants"].keys() & after["grants"].keys():
        grants[name] = together(before["grants"][name], after["grants"][name])
    return {**before, **after, **both, "grants": grants, "by": _NOBODY, "version": 0}


def _knows(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether one has counted all that the other has."""
    counted = all(
        one[column].get(who, 0) >= tokens
        for column in _COLUMNS
        for who, tokens in other[column].items()
    )
    grants = one["grants"]
    return counted and all(
        name in grants and _knows(grants[name], known) for name, known in other["grants"].items()
    )


def raise_to(entries: dict[str, int], known: Mapping[str, int]) -> None:
    """Raise each entry to the larger of the two counts."""
    for who, tokens in known.items():
        entries[who] = max(tokens, entries.get(who, 0))
