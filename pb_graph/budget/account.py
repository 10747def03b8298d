"""Token accounts: a call reserves its cap before it is made, and settles its cost after it.

Accounts form a tree. A reservation counts in the account that it is made in and in every account
above, so that calls at the same time, in threads and in tasks, never spend more than the total of
any of them. A *limit* draws on its parent call by call; a *grant* is set aside in its parent at
once, and returns what is left of it when it is closed.
"""
# ruff: noqa: SLF001 -- the accounts of a tree are one thing to the lock

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from numbers import Integral
from typing import Self
from uuid import uuid4

from pb_graph.errors import BudgetUsedUpError

# One lock for all accounts, held for some microseconds: a reservation concerns several of them.
_LOCK = threading.Lock()
_WAITING: set[Future[None]] = set()
_OPEN: ContextVar[tuple[Reservation, ...]] = ContextVar("pb_graph_reservations", default=())


class Budget:
    """Completion tokens that any number of agents, graphs and threads spend together.

    A call whose cost is unknown keeps its cap reserved: a budget ends early rather than being
    overspent. Only a server that ignores its cap can spend more than was reserved. Those tokens are
    counted, too, and then nothing is left.

    A budget belongs to its process. A copy is the same account; pickling raises `TypeError`.

    Args:
        total: Completion tokens, at least 1.

    Attributes:
        total: Completion tokens that all calls may spend.
        spent: Tokens of all settled calls.
        unknown: Caps of calls that may have been billed by an unknown amount. They never return.
        parent: The account that this one draws on.

    Raises:
        ValueError: A number of tokens, here and in the methods, is not whole or is too small.
    """

    def __init__(self, total: int) -> None:
        self.total = whole_number("total", total, least=1)
        self.parent: Budget | None = None
        self._name: str | None = None  # of a grant, in its parent
        self._grants: dict[str, Budget] = {}  # those that are open
        self._closed = False
        self.spent = self.unknown = 0
        self._pending = 0  # caps of calls under way, but for those in grants
        self._aside = 0  # what the grants hold
        self._runs: set[str] | None = None  # runs that this account of a run has heard of

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self  # two accounts would spend twice as much

    def __reduce__(self) -> str:
        msg = "A Budget cannot be pickled: it belongs to its process. Open another one there."
        raise TypeError(msg)

    def __repr__(self) -> str:
        return f"<Budget: {self.spent} of {self.total} tokens spent, {self.left} left>"

    @property
    def left(self) -> int:
        """Tokens that a call can reserve now."""
        with _LOCK:
            return max(0, self._free())

    @property
    def left_after_pending(self) -> int:
        """Tokens that a call could reserve if all calls under way turned out to cost nothing."""
        with _LOCK:
            return max(0, self._free(with_pending=True))

    @property
    def max_left(self) -> int:
        """The most that calls can ever reserve: also what calls and grants may still return."""
        with _LOCK:
            return max(0, min(one.total - one.spent - one.unknown for one in _upwards(self)))

    def reserve(
        self, tokens: int | None = None, *, keep: int = 0, at_least: int = 0
    ) -> Reservation:
        """Set tokens aside for a call that is about to be made.

        Args:
            tokens: The most that the call may cost. `None` for all that is left.
            keep: Tokens to leave untouched.
            at_least: Tokens worth waiting for while calls under way may return some. There is no
                wait within a call (``with budget.reserve(…):``), nor in a thread that runs an event
                loop; use `areserve` there.

        Returns:
            At least one token and at most `tokens`. As a context manager, the reservation is
            forfeited if the block is left before it was settled.

        Raises:
            BudgetUsedUpError: Nothing is left.
            ValueError: A number of tokens is not whole, or is negative.
        """
        return reserve_in([self], tokens, keep=keep, at_least=at_least)

    async def areserve(
        self, tokens: int | None = None, *, keep: int = 0, at_least: int = 0
    ) -> Reservation:
        """Reserve as `reserve` does; other tasks of the event loop go on during the wait."""
        return await areserve_in([self], tokens, keep=keep, at_least=at_least)

    def charge(self, tokens: int) -> None:
        """Count tokens that nothing was reserved for, such as those spent in another process."""
        spent = whole_number("tokens", tokens, least=0)
        with _LOCK:
            self._book(spent=spent)

    def limit(self, tokens: int) -> Budget:
        """Open an account that draws on this one call by call; nothing is set aside for it."""
        return self._open_child(whole_number("tokens", tokens, least=0))

    def grant(self, tokens: int, name: str | None = None) -> Budget:
        """Set tokens aside as an account of their own, which returns the rest when it is closed.

        Args:
            tokens: The most that the grant gets; less where less is left.
            name: Opens the grant once: later calls with this name return the same account.

        """
        wanted = whole_number("tokens", tokens, least=0)
        name = name or uuid4().hex
        with _LOCK:
            if name not in self._grants:
                made = self._open_child(min(wanted, max(0, self._free())))
                made._name, self._grants[name] = name, made
                self._book(aside=made.total)
            return self._grants[name]

    def open_run(self, tokens: int, run: str = "", earlier: int = 0) -> Budget:
        """Open a limit for one run, which may have spent tokens before it was paused.

        The accounts of runs live as long as one invocation, so those above learn here, once, what
        this run spent earlier. An account that a user holds counted it when it was spent.

        Args:
            tokens: The run's total in completion tokens.
            run: The run's identity.
            earlier: Completion tokens that the run has spent before; they count in its total.
        """
        made = self.limit(tokens)
        made._runs = set()
        made.spent = earlier
        self.count_earlier(run, earlier)
        return made

    def count_earlier(self, run: str, tokens: int) -> None:
        """Count once, in an account of a run and those above, what a paused run spent before.

        Args:
            run: The paused run's identity.
            tokens: Completion tokens that it had spent.
        """
        with _LOCK:
            if self._runs is not None and run not in self._runs:
                self._runs.add(run)
                self._book(spent=tokens, only_runs=True)

    def close(self) -> None:
        """Return what is left of a grant. Calls that are still under way settle as ever.

        A limit returns what its grants had set aside. Budgets other than grants stay open.
        """
        with _LOCK:
            self._end()
        _notify_waiters()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def root(self) -> Budget:
        """The account that all tokens come from."""
        return self if self.parent is None else self.parent.root

    def is_within(self, other: Budget) -> bool:
        """Return whether what is spent in this account is spent in `other`, too."""
        return any(one is other for one in _upwards(self))

    # What follows is called with the lock held.

    def _open_child(self, total: int) -> Budget:
        made = Budget(1)
        made.total, made.parent = total, self
        return made

    def _end(self) -> None:
        for grant in [*self._grants.values()]:
            grant._end()
        if self.parent and self._name and not self._closed:
            before = self._held()
            self._closed = True
            self.parent._book(aside=self._held() - before)
            del self.parent._grants[self._name]

    def _held(self) -> int:
        """Return what a grant keeps from the other callers of its parent."""
        at_stake = self._pending + self._aside
        if self._closed:
            return at_stake
        return max(at_stake, self.total - self.spent - self.unknown)

    def _free(self, *, with_pending: bool = False) -> int:
        free, set_aside = self.total, False
        for account in _upwards(self):
            held = account._aside + (0 if with_pending else account._pending)
            rest = account.total - account.spent - account.unknown - held
            # What was set aside is there, unless a server ignored its cap and took some of it.
            free = min(free, free + rest if set_aside else rest)
            if account._name:
                free, set_aside = (0 if account._closed else free), True
        return free

    def _book(
        self,
        *,
        pending: int = 0,
        aside: int = 0,
        spent: int = 0,
        unknown: int = 0,
        only_runs: bool = False,
    ) -> None:
        """Add to the account and to every account above it.

        The only place where tokens are counted. A parent has set the tokens of a grant aside, and
        so counts the change of what the grant holds instead of its calls.
        """
        for account in _upwards(self):
            if only_runs and account._runs is None:
                return
            before = account._held()
            account._pending += pending
            account._aside += aside
            account.spent += spent
            account.unknown += unknown
            if account._name:
                pending, aside = 0, account._held() - before


class Reservation:
    """Tokens reserved for one call until the call is settled.

    Attributes:
        tokens: The call's cap.
        accounts: The accounts that the tokens were reserved in; all others are above these.
    """

    def __init__(self, tokens: int, accounts: Sequence[Budget]) -> None:
        self.tokens = tokens
        self.accounts = tuple(accounts)
        self._is_settled = False

    def settle(self, tokens: int) -> None:
        """Count what the call cost, and return the rest. Only the first time counts.

        Args:
            tokens: Completion tokens, reasoning included; 0 for a call that was refused.
        """
        self._close(spent=whole_number("tokens", tokens, least=0))

    def forfeit(self) -> None:
        """Keep all tokens reserved for good: the call may have been billed, by whatever amount."""
        self._close(unknown=self.tokens)

    def _close(self, *, spent: int = 0, unknown: int = 0) -> None:
        with _LOCK:
            if self._is_settled:
                return
            self._is_settled = True
            for account in self.accounts:
                account._book(pending=-self.tokens, spent=spent, unknown=unknown)
        _notify_waiters()

    def __enter__(self) -> Self:
        _OPEN.set((*_OPEN.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _OPEN.set(tuple(one for one in _OPEN.get() if one is not self))
        self.forfeit()


def reserve_in(
    accounts: Sequence[Budget], tokens: int | None = None, *, keep: int = 0, at_least: int = 0
) -> Reservation:
    """Reserve the same tokens in several accounts of different trees, as `Budget.reserve` does.

    Args:
        accounts: The accounts, of which none is above another.
        tokens: The most that the call may cost. `None` for all that is left.
        keep: Tokens to leave untouched in the first of the accounts.
        at_least: Tokens worth waiting for.

    Raises:
        BudgetUsedUpError: Nothing is left in one of them.
        ValueError: A number of tokens is not whole, or is negative.
    """
    waits = not _is_in_event_loop()
    while isinstance(made := _try_reserve(accounts, tokens, keep, at_least, waits=waits), Future):
        made.result()
    return made


async def areserve_in(
    accounts: Sequence[Budget], tokens: int | None = None, *, keep: int = 0, at_least: int = 0
) -> Reservation:
    """Reserve as `reserve_in` does; other tasks of the event loop go on during the wait."""
    while isinstance(made := _try_reserve(accounts, tokens, keep, at_least, waits=True), Future):
        await asyncio.wrap_future(made)
    return made


def _try_reserve(
    accounts: Sequence[Budget], tokens: int | None, keep: int, at_least: int, *, waits: bool
) -> Reservation | Future[None]:
    """Reserve now, or return a future that is done when a call has returned tokens."""
    tokens = None if tokens is None else whole_number("tokens", tokens, least=1)
    keep = whole_number("keep", keep, least=0)
    waits = waits and not _OPEN.get()  # the call might wait for itself
    with _LOCK:
        free = min([accounts[0]._free() - keep, *(one._free() for one in accounts[1:])])
        cap = free if tokens is None else min(tokens, free)
        enough = at_least if tokens is None else min(tokens, at_least)
        may_return = any(one._pending for account in accounts for one in _segment(account))
        if free < enough and waits and may_return:
            future: Future[None] = Future()
            _WAITING.add(future)
            return future
        if cap < 1:  # of several accounts that are used up, users know the highest
            chain = [one for account in accounts for one in [*_segment(account)][::-1]]
            used_up = next((one for one in chain if one._free() <= keep), accounts[0])
            raise BudgetUsedUpError(used_up.total)
        for account in accounts:
            account._book(pending=cap)
        return Reservation(cap, accounts)


def _upwards(account: Budget | None) -> Iterator[Budget]:
    """Yield the account and every account above it."""
    while account is not None:
        yield account
        account = account.parent


def _segment(account: Budget) -> Iterator[Budget]:
    """Yield the account and those above it up to the first grant, whose tokens are set aside."""
    for one in _upwards(account):
        yield one
        if one._name:
            return


def _notify_waiters() -> None:
    with _LOCK:
        waiting = [*_WAITING]
        _WAITING.clear()
    for future in waiting:
        if future.set_running_or_notify_cancel():
            future.set_result(None)


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def whole_number(name: str, value: object, *, least: int) -> int:
    """Return `value` as an int of at least `least`; other values raise a ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, Integral)) or value < least:
        msg = f"{name} must be a whole number of at least {least}, not {value!r}"
        raise ValueError(msg)
    return int(value)
