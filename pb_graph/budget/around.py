"""Which accounts a call draws on: its own, and those that it is run within."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pb_graph.budget.shared import Budget, limited
from pb_graph.errors import InputError

_CURRENT: ContextVar[Budget | None] = ContextVar("pb_graph_budget", default=None)


def current() -> Budget | None:
    """The account that calls in this thread or task draw on, if any."""
    return _CURRENT.get()


def checked(name: str, given: object) -> Budget | None:
    """What was given as a shared budget, if it is one.

    Raises:
        InputError: It is not; it says what is.
    """
    if given is None or isinstance(given, Budget):
        return given
    msg = f"{name} is a Budget, such as Budget(4000), which all share, not {given!r:.100}"
    raise InputError(msg)


def at_hand(tokens: int, *, ever: bool = False) -> int:
    """As many of these tokens as a call here can have, after a wait; or ever, when all is back."""
    around = current()
    if around is None:
        return tokens
    return min(tokens, around.left_at_most if ever else around.left_soon)


@contextmanager
def using(budget: Budget | None) -> Iterator[None]:
    """Let all calls below draw on an account: agents and graphs that are run within find it."""
    token = _CURRENT.set(checked("what is used", budget))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def drawn_on(own: Budget | None) -> tuple[Budget, ...]:
    """The accounts that a caller with a budget of its own draws on, below whoever runs it.

    One that is run within its own budget has the part that it was given there, and no more; one
    with a grant of what its caller draws on has that grant, which was set aside for it.
    """
    around = current()
    if own is None or around is None:
        return tuple(account for account in (own, around) if account)
    if around.is_part_of(own):
        return (around,)
    return (own,) if own.is_beside(around) else (own, around)


def within_all(above: tuple[Budget, ...], tokens: int | None = None) -> Budget | None:
    """One account that draws on several, and on no more than ``tokens`` of them.

    Args:
        above: What it draws on.
        tokens: Its total; None for what the least of them has.
    """
    if tokens is None and len(above) < 2:  # noqa: PLR2004 -- one is its own account
        return above[0] if above else None
    totals = [account.total for account in above] + ([] if tokens is None else [tokens])
    return limited(min(totals), above, tokens)


@contextmanager
def drawing_on(*above: Budget) -> Iterator[Budget]:
    """One account that draws on several for a while; after that they need not tell it apart."""
    made = within_all(above) or above[0]
    try:
        yield made
    finally:
        if made not in above:
            made.close()
