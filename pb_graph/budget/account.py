"""Token accounts: a call reserves its cap before it is made, and settles its cost after it.

A reservation counts in the account that it is made in and in every account above, so that calls at
the same time, in threads and in tasks, never spend more than the total of any of them. Agents and
graphs that run within a budget find it around them.
"""
# ruff: noqa: SLF001 -- the accounts of a tree are one thing to the lock

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Literal, Self, TypedDict, Unpack

from pb_graph.budget.rates import (
    ALL_TOKENS,
    COMPLETION_TOKENS,
    Bill,
    Dollars,
    Prices,
    Spending,
)
from pb_graph.budget.tree import (
    LOCK,
    MOST_TOKENS,
    WAITING,
    Account,
    notify_waiters,
    whole_number,
)
from pb_graph.errors import BudgetUsedUpError, InputError

_NO_CALL = Bill()
# Accounts around the caller: at most one of each tree, the innermost first.
_AROUND: ContextVar[tuple[Budget, ...]] = ContextVar("pb_graph_budget", default=())
_OPEN: ContextVar[int] = ContextVar("pb_graph_open_reservations", default=0)


class ReserveOptions(TypedDict, total=False):
    """The other arguments of `Budget.reserve`, which describes them."""

    keep: float
    at_least: int
    call: Bill


class Budget(Account):
    """Tokens or dollars that any number of agents, graphs and threads spend together.

    Give one of the three totals. A budget of all tokens or of dollars bounds the input of a call
    before it is made, and lowers the call's cap until both fit.

    A call whose cost is unknown keeps its cap reserved: a budget ends early rather than being
    overspent. Only a server that ignores its cap can spend more than was reserved. Those tokens are
    counted, too, and then nothing is left.

    A budget belongs to its process. A copy is the same account; pickling raises `TypeError`.

    Args:
        total: Completion tokens, at least 1.
        total_tokens: Input and completion tokens, at least 1.
        usd: Dollars, more than 0.
        prices: Dollars per million tokens by model, of input, output and cached input:
            ``{"gpt-5-mini": (0.25, 2.0, 0.025)}``. ``"auto"`` for the list of `genai-prices`.

    Raises:
        InputError: A price is no number, or not exactly one total is given.
        ValueError: A figure, here and in the methods, is not whole or is too small.
    """

    def __init__(
        self,
        total: int | None = None,
        *,
        total_tokens: int | None = None,
        usd: float | None = None,
        prices: Prices | Literal["auto"] = "auto",
    ) -> None:
        totals = {"total": total, "total_tokens": total_tokens, "usd": usd}
        given = [(name, figure) for name, figure in totals.items() if figure is not None]
        if len(given) != 1:
            msg = f"A budget has one total, in tokens or in dollars, not {len(given)}. Give "
            raise InputError(msg + "Budget(4000), Budget(total_tokens=60_000) or Budget(usd=0.5).")
        name, figure = given[0]
        rates = {"total": COMPLETION_TOKENS, "total_tokens": ALL_TOKENS}
        super().__init__(rates.get(name) or Dollars(prices), None)
        self._own = self._units(name, figure, least=1)

    def reserve(
        self,
        tokens: int | None = None,
        *,
        keep: float = 0,
        at_least: int = 0,
        call: Bill = _NO_CALL,
    ) -> Reservation:
        """Set tokens aside for a call that is about to be made.

        Args:
            tokens: Completion tokens that the call may cost. `None` for all that is left.
            keep: Tokens or dollars, in the unit of this budget, to leave for one more call that has
                the same input and the completion.
            at_least: Completion tokens worth waiting for while calls under way may return some.
                There is no wait within a call (``with budget.reserve(…):``), nor in a thread that
                runs an event loop; use `areserve` there.
            call: The model and the bound of the input, as `bound_input` returns them. A budget of
                all tokens or of dollars needs them.

        Returns:
            At least one token and at most `tokens`. As a context manager, the reservation is
            forfeited if the block is left before it was settled.

        Raises:
            BudgetUsedUpError: Nothing is left, or the input alone does not fit.
            InputError: The budget counts the input, and `call` is missing.
            ValueError: A number of tokens is not whole, or is negative.
        """
        return reserve_in([self], tokens, keep=keep, at_least=at_least, call=call)

    async def areserve(
        self, tokens: int | None = None, **options: Unpack[ReserveOptions]
    ) -> Reservation:
        """Reserve as `reserve` does; other tasks of the event loop go on during the wait."""
        return await areserve_in([self], tokens, **options)


class Reservation:
    """Tokens reserved for one call until the call is settled.

    Attributes:
        tokens: The call's cap in completion tokens.
        accounts: The accounts that the tokens were reserved in; all others are above these.
        call: The model and the bound of the input, where an account counts it.
        most: The most that the call can cost.
        bill: What was counted, once the call is settled; the most that it may be if it is unknown.
    """

    def __init__(self, tokens: int, accounts: Sequence[Budget], call: Bill = _NO_CALL) -> None:
        self.tokens = tokens
        self.accounts = tuple(accounts)
        self.call = call
        self.most = call._replace(output=tokens)
        self.bill: Bill | None = None

    @property
    def amount(self) -> float:
        """The most that the call can cost, in the unit of the first account."""
        first = self.accounts[0]
        return first._value(first.rate.cost(self.most))

    def settle(
        self, tokens: int, *, input_tokens: int | None = None, cached: int = 0, written: int = 0
    ) -> None:
        """Count what the call cost, and return the rest. Only the first time counts.

        Args:
            tokens: Completion tokens, reasoning included; 0 for a call that was refused.
            input_tokens: Input tokens. `None` if they are not known: the bound of them counts, or
                none if there are no completion tokens.
            cached: Input tokens that were read from a cache.
            written: Input tokens that were written to a cache.
        """
        output = whole_number("tokens", tokens, least=0)
        bill = self.call._replace(output=output)
        if input_tokens is not None or not output:
            bill = Bill(self.call.model, output, input_tokens or 0, cached, written)
        self.settle_bills([bill])

    def forfeit(self) -> None:
        """Keep all tokens reserved for good: the call may have been billed, by whatever amount."""
        self.settle_bills([self.most], is_unknown=True)

    def settle_bills(self, bills: Sequence[Bill], *, is_unknown: bool = False) -> None:
        """Count what several calls cost that were made under this reservation."""
        with LOCK:
            if self.bill is not None:
                return
            self.bill = bills[0]
            for account in self.accounts:
                account._book(returned=self.most)
                for bill in bills:
                    account._book(bill, is_unknown=is_unknown)
        notify_waiters()

    def __enter__(self) -> Self:
        _OPEN.set(_OPEN.get() + 1)
        return self

    def __exit__(self, *_: object) -> None:
        _OPEN.set(max(0, _OPEN.get() - 1))
        self.forfeit()


def current_budget() -> Budget | None:
    """Return the innermost account that calls in this thread or task draw on, if there is one."""
    return _AROUND.get()[0] if _AROUND.get() else None


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


def open_run(
    own: int | Budget | None,
    *,
    limit: int | None = None,
    run: str = "",
    earlier: int | Spending = 0,
) -> Budget | None:
    """Open the account of one run below the accounts around it.

    Args:
        own: The run's own total in completion tokens, or an account that it draws on.
        limit: The most that the run may spend, in completion tokens.
        run: The run's identity.
        earlier: What the run spent before it was paused, in completion tokens or by model.

    Returns:
        An account in completion tokens, as large as the smallest of `own`, `limit` and what the run
        is within; without a number, an account in the unit of the budget around the run. `None`
        where there is none of these.

    Raises:
        InputError: `own` is neither a number nor a `Budget`.
        ValueError: A total is not a whole number of at least 0.
    """
    total = own if isinstance(own, int) else None
    totals = [whole_number("budget", n, least=0) for n in (total, limit) if n is not None]
    around = accounts_in_scope(None if isinstance(own, int) else require_budget("budget", own))
    if not (around or totals):
        return None
    if not totals:
        return around[0].open_run(run=run, earlier=earlier)
    base = around[0] if around else Budget(max(1, min(totals)))
    if base.unit == "completion tokens":
        totals.append(int(base.total))
    return base.open_run(tokens=min(totals), run=run, earlier=earlier)


def reserve_in(
    accounts: Sequence[Budget], tokens: int | None = None, **options: Unpack[ReserveOptions]
) -> Reservation:
    """Reserve the same tokens in several accounts of different trees, as `Budget.reserve` does.

    Args:
        accounts: The accounts, of which none is above another. `keep` concerns the first of them.
        tokens: As in `Budget.reserve`.
        **options: As in `Budget.reserve`.
    """
    waits = True
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        waits = False  # it would block all tasks
    while isinstance(made := _try_reserve(accounts, tokens, waits=waits, **options), Future):
        made.result()
    return made


async def areserve_in(
    accounts: Sequence[Budget], tokens: int | None = None, **options: Unpack[ReserveOptions]
) -> Reservation:
    """Reserve as `reserve_in` does; other tasks of the event loop go on during the wait."""
    while isinstance(made := _try_reserve(accounts, tokens, waits=True, **options), Future):
        await asyncio.wrap_future(made)
    return made


def _try_reserve(  # noqa: PLR0913 -- as `reserve_in`
    accounts: Sequence[Budget],
    tokens: int | None,
    *,
    waits: bool,
    keep: float = 0,
    at_least: int = 0,
    call: Bill = _NO_CALL,
) -> Reservation | Future[None]:
    """Reserve now, or return a future that is done when a call has returned tokens."""
    if call.model == "" and any(one.needs_input for one in accounts):
        msg = "A budget that counts the input needs the model and the prompt of a call. "
        raise InputError(msg + "Give reserve(…, call=bound_input(model, messages)).")
    most = MOST_TOKENS if tokens is None else whole_number("tokens", tokens, least=1)
    kept = [accounts[0]._units("keep", keep)] + [0] * (len(accounts) - 1)
    waits = waits and not _OPEN.get()  # the call might wait for itself
    with LOCK:
        caps = [one._cap(call, units) for one, units in zip(accounts, kept, strict=True)]
        cap = min(most, *caps)
        if waits and cap < min(most, at_least):
            path = [one for account in accounts for one in account._path()]
            if any(one._pending for one in path):
                future: Future[None] = Future()
                WAITING.add(future)
                return future
        if cap < 1:
            raise _used_up(accounts, call, kept)
        made = Reservation(cap, accounts, call)
        for account in accounts:
            account._book(reserved=made.most)
        return made


def _used_up(accounts: Sequence[Budget], call: Bill, kept: Sequence[int]) -> BudgetUsedUpError:
    """Return an error that names the highest account that is used up; users know that one."""
    least = call._replace(output=1)
    for account, units in zip(accounts, kept, strict=True):
        for one in reversed(account._path()):
            free, given = one._free(), one.rate.cost(call)
            keep = units if one.rate is account.rate else 0
            if free < one.rate.cost(least) + keep:
                prompt, left = one._text(given) if given else "", one._text(max(0, free))
                return BudgetUsedUpError(one._text(one._size()), prompt=prompt, left=left)
    return BudgetUsedUpError(accounts[0]._text(accounts[0]._size()))
