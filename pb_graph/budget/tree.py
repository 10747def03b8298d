"""A tree of accounts: their figures, limits, grants and runs, and the one place that counts.

A *limit* draws on its parent call by call. A *grant* is set aside in its parent at once, and
returns what is left of it when it is closed. An account counts whole units: tokens, or
pico-dollars. Its `Rate` turns a call into units, once for all accounts of that rate.
"""
# ruff: noqa: SLF001 -- the accounts of a tree are one thing to the lock

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from numbers import Integral
from typing import Self

from pb_graph.budget.rates import (
    COMPLETION_TOKENS,
    Bill,
    Rate,
    Spending,
    Unit,
    bills_of,
    pico_dollars,
)
from pb_graph.errors import InputError

# One lock for all accounts, held for some microseconds: a reservation concerns several of them.
LOCK = threading.Lock()
WAITING: set[Future[None]] = set()  # callers that wait for tokens
MOST_TOKENS = 10**9  # where a model costs nothing, and no cap was given


class Account:
    """An account of a tree, as `Budget` opens it.

    Attributes:
        unit: The unit of all figures: completion tokens, tokens or dollars.
        rate: The way in which this account counts a call.
        parent: The account that this one draws on.
        needs_input: Whether this account, or one above it, counts the input of calls.
    """

    def __init__(self, rate: Rate, size: int | None, parent: Self | None = None) -> None:
        self.rate, self.parent = rate, parent
        self.unit: Unit = rate.unit
        self.needs_input: bool = rate.needs_input or (parent is not None and parent.needs_input)
        self._own = size  # None: as much as the parent has
        self._spent = self._unknown = 0
        self._pending = 0  # caps of calls under way, but for those in grants
        self._aside = 0  # what the grants hold
        self._tokens: Spending = {}
        self._key: object = None  # of a grant, in its parent
        self._grants: dict[object, Self] = {}  # those that are open
        self._is_closed = False
        self._runs: set[str] | None = None  # runs that this account of a run has heard of

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self  # two accounts would spend twice as much

    def __reduce__(self) -> str:
        msg = "A Budget cannot be pickled: it belongs to its process. Open another one there."
        raise TypeError(msg)

    def __repr__(self) -> str:
        spent, total, left = map(self.rate.text, (self.spent, self.total, self.left))
        return f"<Budget: {spent} of {total} spent, {left} left>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def total(self) -> float:
        """Tokens or dollars that all calls may spend."""
        return self._value(self._size())

    @property
    def spent(self) -> float:
        """Tokens or dollars of all settled calls."""
        return self._value(self._spent)

    @property
    def unknown(self) -> float:
        """The most that calls with an unknown bill may have cost. It never returns."""
        return self._value(self._unknown)

    @property
    def spending(self) -> Spending:
        """Tokens by model, whatever the unit; an unknown bill counts as the most it can be."""
        with LOCK:
            return {model: [*counts] for model, counts in self._tokens.items()}

    @property
    def left(self) -> float:
        """Tokens or dollars that a call can reserve now, in this account and those of its unit."""
        with LOCK:
            return self._value(max(0, self._free()))

    @property
    def left_after_pending(self) -> float:
        """Tokens or dollars that a call could reserve if those under way cost nothing."""
        with LOCK:
            return self._value(max(0, self._free(after_pending=True)))

    @property
    def root(self) -> Self:
        """The account that all tokens come from."""
        return self if self.parent is None else self.parent.root

    def is_within(self, other: Account) -> bool:
        """Return whether what is spent in this account is spent in `other`, too."""
        return self is other or (self.parent is not None and self.parent.is_within(other))

    def tokens_left(self, model: str = "", *, with_grants: bool = False) -> int:
        """Return the completion tokens that calls can have if those under way cost nothing.

        Args:
            model: The model's key or name. Without it, dollars are not counted.
            with_grants: Count all that grants may still return, too.
        """
        tokens = MOST_TOKENS
        with LOCK:
            for chain in self._chains():
                left, rate = chain[0]._free(after_pending=True), chain[0].rate
                if with_grants:
                    left = min(one._unspent() for one in chain)
                if rate.unit != "dollars":
                    tokens = min(tokens, left)
                elif model:
                    tokens = min(tokens, _tokens_for(left, rate, Bill(model)))
        return max(0, tokens)

    def charge(self, tokens: int | Spending) -> None:
        """Count tokens that nothing was reserved for, such as those spent in another process.

        Args:
            tokens: Completion tokens, or the `spending` of another budget. An account that counts
                the input, or one below it, takes the latter alone.
        """
        if not isinstance(tokens, dict):
            tokens = whole_number("tokens", tokens, least=0)
            if self.needs_input:
                msg = f"{tokens} tokens cannot be charged to a budget that counts the input. "
                raise InputError(msg + "Give the `spending` of the other budget.")
        with LOCK:
            for bill in bills_of(tokens):
                self._book(bill)

    def share(self, fraction: float) -> float:
        """Return a fraction of the total: of tokens, whole ones and at least 1."""
        whole = self.total * fraction
        return whole if self.unit == "dollars" else max(1, math.ceil(whole))

    def limit(self, amount: float | None = None, *, tokens: int | None = None) -> Self:
        """Open an account that draws on this one call by call; nothing is set aside for it.

        Args:
            amount: Tokens or dollars, in the unit of this budget. `None` for as much as this one
                has, also when that is raised.
            tokens: Completion tokens, whatever the unit of this budget, instead of `amount`.
        """
        if tokens is not None:
            return self._open(whole_number("tokens", tokens, least=0), COMPLETION_TOKENS)
        return self._open(None if amount is None else self._part(amount))

    def grant(self, amount: float, name: str | None = None) -> Self:
        """Set an amount aside as an account of its own, which returns the rest when it is closed.

        Args:
            amount: The most that the grant gets, in the unit of this budget; less where less is
                left.
            name: Opens the grant once: later calls with this name return the same account.

        """
        wanted, key = self._part(amount), name or object()
        with LOCK:
            if key not in self._grants:
                size = min(wanted, max(0, self._free()))
                made = self._grants[key] = self._open(size)
                made._key = key
                self._book(aside=size)
            return self._grants[key]

    def open_run(
        self,
        amount: float | None = None,
        *,
        tokens: int | None = None,
        run: str = "",
        earlier: int | Spending = 0,
    ) -> Self:
        """Open a limit for one run, which may have spent tokens before it was paused.

        The accounts of runs live as long as one invocation, so those above learn here, once, what
        this run spent earlier. An account that a user holds counted it when it was spent.

        Args:
            amount: The run's total, as in `limit`.
            tokens: The run's total in completion tokens, as in `limit`.
            run: The run's identity.
            earlier: What the run has spent before, in completion tokens or as the `spending` of its
                account; it counts in the total.
        """
        made = self.limit(amount, tokens=tokens)
        made._runs = set()
        bills = bills_of(earlier) if earlier else []
        with LOCK:
            for bill in bills:
                made._book(bill, below=self)
            self._count_run(run, bills)
        return made

    def count_earlier(self, run: str, earlier: int | Spending) -> None:
        """Count once, in an account of a run and those above, what a paused run spent before.

        Args:
            run: The paused run's identity.
            earlier: What it had spent, as in `open_run`.
        """
        with LOCK:
            self._count_run(run, bills_of(earlier))

    def raise_to(self, total: float) -> None:
        """Raise the total. Callers that wait go on, and accounts as large as this one grow, too.

        Args:
            total: The new total, in the unit of this budget; not less than it has.

        Raises:
            ValueError: It is less.
            InputError: A grant is to have more than its parent has left.
        """
        wanted = self._units("total", total, least=1)
        with LOCK:
            more = wanted - self._size()
            if more < 0:
                msg = f"total must be at least {self._text(self._size())}, as it is, not {total!r}"
                raise ValueError(msg)
            if self._key and self.parent and more > (left := max(0, self.parent._free())):
                msg = f"The parent of this grant has only {self._text(left)} left. "
                raise InputError(msg + "Raise the parent first.")
            self._grow(more)
        notify_waiters()

    def raise_by(self, amount: float) -> None:
        """Let so much more be spent here: raise this account, and those above that are too small.

        Args:
            amount: Tokens or dollars, in the unit of this budget.
        """
        units = self._units("amount", amount, least=1)
        with LOCK:
            wanted = max(0, self._free(after_pending=True)) + units
            needs: list[tuple[Account, int]] = []
            for account in self._chains()[0]:
                rest = account._unspent() - account._aside
                more = max(0, wanted - rest) if account._own is not None else 0
                needs.append((account, more))
                if account._key:  # its parent sets aside so much more
                    wanted = more
            for account, more in needs:
                account._grow(more)
        notify_waiters()

    def close(self) -> None:
        """Return the unspent part of a grant to its parent. Calls in flight still settle.

        A limit returns what its grants had set aside. Budgets other than grants stay open.
        """
        with LOCK:
            self._end()
        notify_waiters()

    def _open(self, size: int | None, rate: Rate | None = None) -> Self:
        made = object.__new__(type(self))
        Account.__init__(made, rate or self.rate, size, self)
        return made

    def _units(self, name: str, figure: object, *, least: int = 0) -> int:
        if self.rate.scale == 1:
            return whole_number(name, figure, least=least)
        return pico_dollars(name, figure, least=least)

    def _part(self, amount: float) -> int:
        units = self._units("amount", amount)
        if self.unit == "dollars" and units > self._size():
            msg = f"{amount} dollars are more than this budget of {self._text(self._size())} "
            raise InputError(msg + "has. Its parts are given in dollars, not in tokens.")
        return units

    def _value(self, units: int) -> float:
        return units if self.rate.scale == 1 else units / self.rate.scale

    def _text(self, units: int) -> str:
        return self.rate.text(self._value(units))

    # What follows is called with the lock held.

    def _chains(self) -> list[list[Self]]:
        """Return this account and every account above it, in one list for each unit."""
        chains: list[list[Self]] = []
        account: Self | None = self
        while account is not None:
            if not chains or account.rate is not chains[-1][0].rate:
                chains.append([])
            chains[-1].append(account)
            account = account.parent
        return chains

    def _path(self) -> list[Self]:
        """Return the accounts that count a call here as pending: of each unit, up to a grant."""
        path = []
        for chain in self._chains():
            grant = next((n for n, one in enumerate(chain) if one._key), len(chain))
            path += chain[: grant + 1]
        return path

    def _size(self) -> int:
        if self._own is None:
            return self.parent._size() if self.parent else 0
        return self._own

    def _unspent(self) -> int:
        return self._size() - self._spent - self._unknown

    def _free(self, *, after_pending: bool = False) -> int:
        """Return what a call can reserve in this account and in those of its unit above it."""
        free, is_set_aside = self._size(), False
        for account in self._chains()[0]:
            pending = 0 if after_pending else account._pending
            rest = account._unspent() - account._aside - pending
            # What was set aside is there, unless a server ignored its cap and took some of it.
            free = min(free, free + rest if is_set_aside else rest)
            if account._key:
                free, is_set_aside = (0 if account._is_closed else free), True
        return free

    def _cap(self, call: Bill, keep: int) -> int:
        """Return the completion tokens of a call that fit into this account and those above it.

        What is kept, and what was set aside below in completion tokens, is for one more call: it
        has the same input and, besides, the completion of this one.
        """
        cap, aside = MOST_TOKENS, 0
        for chain in self._chains():
            first, rate = chain[0], chain[0].rate
            cap = min(cap, _tokens_for(first._free(), rate, call, keep, aside))
            aside = max(keep, *(one._aside for one in first._path() if one.rate is rate))
            keep = 0
        return cap

    def _held(self) -> int:
        """Return what a grant keeps from the other callers of its parent."""
        at_stake = self._pending + self._aside
        return at_stake if self._is_closed else max(at_stake, self._unspent())

    def _grow(self, more: int) -> None:
        if not more:
            return
        before = self._held()
        self._own = self._size() + more
        if self._key and self.parent:
            self.parent._book(aside=self._held() - before)

    def _end(self) -> None:
        for grant in [*self._grants.values()]:
            grant._end()
        if self._key and self.parent and not self._is_closed:
            before = self._held()
            self._is_closed = True
            self.parent._book(aside=self._held() - before)
            del self.parent._grants[self._key]

    def _count_run(self, run: str, bills: list[Bill]) -> None:
        if self._runs is None or run in self._runs:
            return
        self._runs.add(run)
        accounts = (one for chain in self._chains() for one in chain)
        of_user = next((one for one in accounts if one._runs is None), None)
        for bill in bills:
            self._book(bill, below=of_user)

    def _book(  # noqa: PLR0913 -- the parts of an account
        self,
        bill: Bill | None = None,
        *,
        is_unknown: bool = False,
        reserved: Bill | None = None,
        returned: Bill | None = None,
        aside: int = 0,
        below: Account | None = None,
    ) -> None:
        """Add to this account and to every account above it, or to those below an account.

        The only place where tokens are counted. A parent has set the tokens of a grant aside, and
        so counts the change of what the grant holds instead of its calls. An account of another
        unit has set nothing aside.
        """
        for chain in self._chains():
            rate, is_set_aside = chain[0].rate, False
            units, more, less = (rate.cost(b) if b else 0 for b in (bill, reserved, returned))
            for account in chain:
                if account is below:
                    return
                before = account._held()
                account._pending += 0 if is_set_aside else more - less
                account._aside += aside
                if bill:
                    account._add(bill, units, is_unknown=is_unknown)
                if account._key:
                    is_set_aside, aside = True, account._held() - before
            aside = 0

    def _add(self, bill: Bill, units: int, *, is_unknown: bool) -> None:
        self._spent += 0 if is_unknown else units
        self._unknown += units if is_unknown else 0
        _add_bill(self._tokens, bill)


def _tokens_for(units: int, rate: Rate, call: Bill, keep: int = 0, keep_tokens: int = 0) -> int:
    """Return the completion tokens that a call can have for so many units.

    With `keep` units, or completion tokens, for one more call that has the same input and, besides,
    the completion of this one.
    """
    given = rate.cost(call)
    each = rate.cost(call._replace(output=1)) - given
    if keep or keep_tokens:
        units -= keep + given + keep_tokens * each
        longer = call._replace(input=call.input + 1, written=call.written + 1)
        each += rate.cost(longer) - given
    if given > units:
        return 0
    return (units - given) // each if each else MOST_TOKENS


def _add_bill(spending: Spending, bill: Bill) -> None:
    if not (bill.output or bill.input):
        return  # a refused call
    counts = spending.setdefault(bill.model, [0] * 5)
    added = [a + b for a, b in zip(counts, bill[1:5], strict=False)]
    counts[:] = [*added, max(counts[4], bill.input, bill.largest)]


def spending_of(bills: Iterable[Bill]) -> Spending:
    """Return the tokens of bills by model."""
    total: Spending = {}
    for bill in bills:
        _add_bill(total, bill)
    return total


def notify_waiters() -> None:
    """Let callers that wait for tokens try again; call it without the lock."""
    with LOCK:
        waiting = [*WAITING]
        WAITING.clear()
    for future in waiting:
        if future.set_running_or_notify_cancel():
            future.set_result(None)


def whole_number(name: str, value: object, *, least: int) -> int:
    """Return `value` as an int of at least `least`; other values raise a ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, Integral)) or value < least:
        msg = f"{name} must be a whole number of at least {least}, not {value!r}"
        raise ValueError(msg)
    return int(value)
