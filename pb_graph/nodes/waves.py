"""Which sub-questions can be solved next, and which answers each of them builds on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pb_graph.settings import Settings
    from pb_graph.types import SubQuestion


def is_closing(plan: Sequence[SubQuestion], index: int, settings: Settings) -> bool:
    """Whether this sub-question also has to give the final answer."""
    return settings.synthesis == "last_step" and index == len(plan) - 1


def next_wave(
    plan: Sequence[SubQuestion], done: Collection[int], settings: Settings
) -> list[SubQuestion]:
    """Sub-questions whose dependencies are done; only the first of them unless in parallel.

    The closing one waits for all others, whatever it was planned to depend on: it puts together
    what they found.
    """
    wave = [
        step
        for step in plan
        if step["index"] not in done
        and all(needed in done for needed in _direct(plan, step["index"], settings))
    ]
    return wave if settings.parallel else wave[:1]


def transitive_dependencies(
    plan: Sequence[SubQuestion], index: int, settings: Settings
) -> list[int]:
    """Indices whose answers a sub-question is shown, in order: its dependencies and theirs."""
    needed: set[int] = set()
    open_ends = _direct(plan, index, settings)
    while open_ends:
        last = open_ends.pop()
        if last not in needed:
            needed.add(last)
            open_ends += plan[last]["depends_on"]
    return sorted(needed)


def _direct(plan: Sequence[SubQuestion], index: int, settings: Settings) -> list[int]:
    return list(range(index)) if is_closing(plan, index, settings) else plan[index]["depends_on"][:]
