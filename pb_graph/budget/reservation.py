"""Tokens that are reserved for one call until the call is settled."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Self

from pb_graph.budget.bill import Bill, whole_number

OPEN: ContextVar[int] = ContextVar("pb_graph_open_reservations", default=0)
"""The reservations whose blocks are open around a caller."""


class Reservation:
    """Tokens reserved for one call until the call is settled.

    Attributes:
        tokens: The call's cap in completion tokens.
        call: The model and the bound of the input, where an account counts it.
        most: The most that the call can cost.
        bill: The counted bill of a settled call; its largest possible value if unknown.
    """

    def __init__(self, tokens: int, call: Bill, settle: Callable[..., None]) -> None:
        self.tokens, self.call, self.most = tokens, call, replace(call, output=tokens)
        self.bill: Bill | None = None
        self._settle = settle

    def settle(self, cost: int | list[Bill]) -> None:
        """Charge the cost of the call once, and release the rest of the reservation.

        Args:
            cost: Completion tokens, reasoning included, to which the bound of the input is added; 0
                for a call that was refused. Or the bills of all calls that were made.
        """
        if not isinstance(cost, list):
            output = whole_number("cost", cost, minimum=0)
            cost = [replace(self.call, output=output) if output else Bill(self.call.model)]
        self._settle(self, cost, is_unknown=False)

    def forfeit(self) -> None:
        """Keep all tokens reserved for good, because the bill of the call is unknown."""
        self._settle(self, [self.most], is_unknown=True)

    def __enter__(self) -> Self:
        OPEN.set(OPEN.get() + 1)
        return self

    def __exit__(self, *_: object) -> None:
        OPEN.set(max(0, OPEN.get() - 1))
        self.forfeit()
