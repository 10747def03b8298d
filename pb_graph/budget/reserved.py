"""A call with its tokens reserved, until it is settled; and who waits for what it gives back."""
# ruff: noqa: SLF001 -- a call and its accounts are one thing to the lock, and know each other

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self

from pb_graph.budget.checks import whole_number

if TYPE_CHECKING:
    from pb_graph.budget.shared import Budget

# One lock for all accounts, held for some microseconds: a call concerns several of them.
LOCK = threading.Lock()
_WAITING: set[Future[None]] = set()

# Calls that this thread or task is in the middle of.
_MAKING: ContextVar[tuple[Call, ...]] = ContextVar("pb_graph_calls", default=())


class Call:
    """Tokens reserved for one call, until it is settled.

    Attributes:
        tokens: The call's cap.
        account: What they were reserved from.
    """

    def __init__(self, account: Budget, tokens: int, lines: list[Budget]) -> None:
        self.tokens = tokens
        self.account, self._lines = account, lines
        self._settled = False

    def settle(self, tokens: int) -> None:
        """Count what the call cost, and give back the rest; a second time, nothing happens.

        Args:
            tokens: Completion tokens, reasoning included; 0 when it was refused, and costs nothing.
        """
        self._close("_spent", whole_number("tokens", tokens, least=0))

    def keep(self) -> None:
        """The call may have been paid for, and nobody can say how much: keep all of it reserved."""
        self._close("_unknown", self.tokens)

    def _close(self, column: str, tokens: int) -> None:
        with LOCK:
            if self._settled:
                return
            self._settled = True
            for account in self._lines:
                account._in_flight -= self.tokens
            self.account._count(column, tokens)
            self.account._drop()
        wake()

    def __enter__(self) -> Self:
        _MAKING.set((*_MAKING.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _MAKING.set(tuple(call for call in _MAKING.get() if call is not self))
        self.keep()


def is_making_a_call() -> bool:
    """Whether this thread or task is in the middle of a call of its own."""
    return bool(_MAKING.get())


def new_turn() -> Future[None]:
    """What is done as soon as a call gives something back; called with the lock held."""
    turn: Future[None] = Future()
    _WAITING.add(turn)
    return turn


def wake() -> None:
    """Let all that wait look again."""
    with LOCK:
        waiting = [*_WAITING]
        _WAITING.clear()
    for turn in waiting:
        if turn.set_running_or_notify_cancel():
            turn.set_result(None)


def in_loop() -> bool:
    """Whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
