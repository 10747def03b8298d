"""Track the accounts around a caller, so that agents and graphs find their budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from pb_graph.budget.account import Budget

if TYPE_CHECKING:
    from pb_graph.types import Spending

ACCOUNTS: ContextVar[tuple[Budget, ...]] = ContextVar("pb_graph_budget", default=())
"""The accounts around a caller: at most one of each tree, the innermost first."""


@contextmanager
def use_budget(budget: Budget | None) -> Iterator[None]:
    """Charge all calls inside the context to an account, and to enclosing accounts of other trees.

    Args:
        budget: An account. Inside the block it replaces the enclosing account of the same tree,
            unless that account is its own part. `None` changes nothing.
    """
    token = ACCOUNTS.set(accounts_in_scope(budget))
    try:
        yield
    finally:
        ACCOUNTS.reset(token)


def accounts_in_scope(own: Budget | None) -> tuple[Budget, ...]:
    """Return the accounts that a call reserves in, the innermost first, at most one of each tree.

    Args:
        own: The caller's own account, if it has one. A caller that runs within its own account uses
            its part of that account. If another account of the tree encloses the caller, such as a
            grant, only that account is spent.
    """
    enclosing = ACCOUNTS.get()
    if own is None:
        return enclosing
    part, others = own, list[Budget]()
    for account in enclosing:
        line = account.line
        if own in line:
            part = account
        elif line[-1] is not own.line[-1]:
            others.append(account)
    return (part, *others)


def available_tokens(tokens: int, model: str = "") -> int:
    """Return how many of `tokens` a call in this context can reserve once pending calls settle.

    Pending calls are assumed to cost nothing. Of a budget that counts the input, only the cost of
    completion tokens is considered here; it lowers the cap of each call once the prompt is known.

    Args:
        tokens: Completion tokens.
        model: The model's key or name, for its price.
    """
    return min([tokens, *(account.tokens_left(model) for account in ACCOUNTS.get())])


def open_run(
    own: int | Budget | None = None,
    *,
    limit: int | None = None,
    run: str = "",
    earlier: Spending | None = None,
) -> Budget | None:
    """Open the account of one run below the accounts around it.

    Args:
        own: The run's own total in completion tokens, or an account that it draws on.
        limit: The most that the run may spend, in completion tokens.
        run: The run's identity.
        earlier: Spending of the run before its pause. It counts in the new account, and in those
            around it that have not heard of the run, as in another process.

    Returns:
        An account in completion tokens, as large as the smallest of `own`, `limit` and the budget
        around the run; without a number, an account in the unit of that budget. `None` if there is
        neither a number nor a budget.
    """
    enclosing = accounts_in_scope(own if isinstance(own, Budget) else None)
    totals = [total for total in (own, limit) if isinstance(total, int)]
    if not (enclosing or totals):
        return None
    first = enclosing[0] if enclosing else Budget(max(1, min(totals)))
    if totals and first.unit == "completion tokens":
        totals.append(int(first.total))
    account = first.limit(tokens=min(totals)) if totals else first.limit()
    for one in (account, *enclosing[1:]):
        one.charge(earlier or {}, run=run)
    return account
