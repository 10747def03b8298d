"""What a method gets, and what it may be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pb_graph.method import METHODS, OURS, PAPER, Method, known_method, method

if TYPE_CHECKING:
    from pb_graph.prompts import Turn
    from pb_graph.runtime.budgeted_call import NodeContext
    from pb_graph.settings import Settings
    from pb_graph.state import State
    from pb_graph.types import Query, SubQuestion

__all__ = [
    "METHODS",
    "OURS",
    "PAPER",
    "Answer",
    "Asked",
    "Method",
    "Prompt",
    "known_method",
    "method",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a method gets to answer.

    Attributes:
        query: The question and what was given with it.
        settings: Of the run.
        budget: Tokens to stay below; None for methods without a budget.
        plan: Sub-questions; none for methods that do not plan.
        shares: Tokens of each sub-question by its index; none where the budget is not split.
    """

    query: Query
    settings: Settings
    budget: int | None = None
    plan: Sequence[SubQuestion] = ()
    shares: Mapping[int, int] | None = None


Prompt = Callable[[Asked], "list[Turn]"]
Answer = Callable[[Asked, "NodeContext"], "Awaitable[State]"]
