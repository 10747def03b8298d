"""The accounts around a caller: agents and graphs find the budget that they run within."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pb_graph.budget.account import Budget, whole_number
from pb_graph.budget.rates import Spending
from pb_graph.errors import InputError

# At most one account of each tree, the innermost first.
_AROUND: ContextVar[tuple[Budget, ...]] = ContextVar("pb_graph_budget", default=())


@contextmanager
def use_budget(budget: Budget | None) -> Iterator[None]:
    """Let all calls in the block draw on an account, and on those of other trees around it.

    Args:
        budget: Takes the place of an account of the same tree around the block, unless that one
            is within `budget` already. `None` changes nothing.

    Raises:
        InputError: `budget` is not a `Budget`.
    """
    token = _AROUND.set(accounts_in_scope(require_budget("budget", budget)))
    try:
        yield
    finally:
        _AROUND.reset(token)


def accounts_in_scope(own: Budget | None = None) -> tuple[Budget, ...]:
    """Return the accounts that a call reserves in, the innermost first, at most one of each tree.

    Args:
        own: The caller's own account. A caller that runs within its own account uses the part that
            it was given there. One with another account of a tree around it, such as a grant,
            spends that account alone.
    """
    around = _AROUND.get()
    if own is None:
        return around
    part = next((one for one in around if one.is_within(own)), own)
    return (part, *(one for one in around if one.root is not own.root))


def available_tokens(tokens: int, *, include_pending: bool = False, model: str = "") -> int:
    """Return how many of `tokens` a call in this context can reserve.

    A budget that counts the input is not known to fit before the prompt is: it lowers the cap of
    each call. Here it counts by what its completion tokens alone would cost.

    Args:
        tokens: Completion tokens.
        include_pending: Count everything that calls and grants could still return, for the most
            that the call could ever reserve; otherwise pending calls alone are taken to cost
            nothing.
        model: The model's key or name, for its price.
    """
    left = [one.tokens_left(model, with_grants=include_pending) for one in _AROUND.get()]
    return min([tokens, *left])


def open_run(
    own: int | Budget | None = None,
    *,
    limit: int | None = None,
    run: str = "",
    earlier: Spending | None = None,
) -> Budget | None:
    """Open the account of one run below the accounts around it.

    The accounts of runs live as long as one invocation. So those around the run learn here, once,
    what the run spent before it was paused.

    Args:
        own: The run's own total in completion tokens, or an account that it draws on.
        limit: The most that the run may spend, in completion tokens.
        run: The run's identity.
        earlier: What the run spent before it was paused; it counts in the total.

    Returns:
        An account in completion tokens, as large as the smallest of `own`, `limit` and what the run
        is within; without a number, an account in the unit of the budget around the run. `None`
        where there is none of these.

    Raises:
        InputError: `own` is neither a number nor a `Budget`.
        ValueError: A total is not a whole number of at least 0.
    """
    around = accounts_in_scope(None if isinstance(own, int) else require_budget("budget", own))
    total = own if isinstance(own, int) else None
    totals = [whole_number("budget", n, least=0) for n in (total, limit) if n is not None]
    if not (around or totals):
        return None
    for account in around:
        account.charge(earlier or {}, run=run)
    first = around[0] if around else Budget(max(1, min(totals)))
    if not totals:
        return first.limit(earlier=earlier)
    if first.unit == "completion tokens":
        totals.append(int(first.total))
    return first.limit(tokens=min(totals), earlier=earlier)


def require_budget(name: str, given: object) -> Budget | None:
    """Return a `Budget` as it is, and `None`.

    Args:
        name: What the argument is called.
        given: What the caller gave for it.

    Raises:
        InputError: `given` is neither.
    """
    if given is None or isinstance(given, Budget):
        return given
    msg = f"{name} must be a Budget, such as Budget(4000), not {given!r:.100}"
    raise InputError(msg)
