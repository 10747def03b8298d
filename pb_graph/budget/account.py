"""Token accounts: a call reserves its cap before it is made, and settles its cost after it.

Accounts form a tree. A reservation counts in the account that it is made in and in every account
above, so that calls at the same time, in threads and in tasks, never spend more than the total of
any of them. A *limit* draws on its parent call by call; a *grant* is set aside in its parent at
once, and returns what is left of it when it is closed.

Each account counts in its own unit, by its `Rate`. Only figures of the same unit are compared: a
call gets as many completion tokens as fit into every account.
"""
# ruff: noqa: SLF001 -- the accounts of a tree are one thing to the lock

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from itertools import groupby
from typing import Literal, Self
from uuid import uuid4

from pb_graph.budget.rates import (
    ALL_TOKENS,
    COMPLETION_TOKENS,
    Bill,
    Dollars,
    Prices,
    Rate,
    Spending,
    Unit,
    add_spending,
    bills_of,
    spending_of,
    whole_number,
)
from pb_graph.errors import BudgetUsedUpError, InputError

# One lock for all accounts, held for some microseconds: a reservation concerns several of them.
_LOCK = threading.Lock()
_WAITING: set[Future[None]] = set()
_NO_BILL = Bill()
_MOST_TOKENS = 10**9  # where a model costs nothing, and no cap was given
_OPEN: ContextVar[tuple[Reservation, ...]] = ContextVar("pb_graph_reservations", default=())


class Budget:
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

    Attributes:
        parent: The account that this one draws on.
        rate: The way in which this account counts a call.

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
        given = {"total": total, "total_tokens": total_tokens, "usd": usd}
        named = [(name, figure) for name, figure in given.items() if figure is not None]
        if len(named) != 1:
            msg = f"A budget has one total, in tokens or in dollars, not {len(named)}. Give "
            raise InputError(msg + "Budget(4000), Budget(total_tokens=60_000) or Budget(usd=0.5).")
        rates: dict[str, Rate] = {"total": COMPLETION_TOKENS, "total_tokens": ALL_TOKENS}
        name, figure = named[0]
        self.rate = rates[name] if name in rates else Dollars(prices)
        self._own: int | None = self.rate.units(name, figure, least=1)  # None: as the parent
        self._open()

    def _open(self) -> None:
        self.parent: Budget | None = None
        self._name: str | None = None  # of a grant, in its parent
        self._grants: dict[str, Budget] = {}  # those that are open
        self._closed = False
        self._spent = self._unknown = 0
        self._pending = 0  # caps of calls under way, but for those in grants
        self._aside = 0  # what the grants hold
        self._bills: Spending = {}
        self._runs: set[str] | None = None  # runs that this account of a run has heard of

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self  # two accounts would spend twice as much

    def __reduce__(self) -> str:
        msg = "A Budget cannot be pickled: it belongs to its process. Open another one there."
        raise TypeError(msg)

    def __repr__(self) -> str:
        with _LOCK:
            figures = (self._spent, self._size(), max(0, self._free()))
        spent, total, left = map(self._text, figures)
        return f"<Budget: {spent} of {total} spent, {left} left>"

    @property
    def unit(self) -> Unit:
        """The unit of all figures: completion tokens, tokens or dollars."""
        return self.rate.unit

    @property
    def total(self) -> float:
        """Tokens or dollars that all calls may spend."""
        return self.rate.value(self._size())

    @property
    def spent(self) -> float:
        """Tokens or dollars of all settled calls."""
        return self.rate.value(self._spent)

    @property
    def unknown(self) -> float:
        """The most that calls with an unknown bill may have cost. It never returns."""
        return self.rate.value(self._unknown)

    @property
    def used(self) -> float:
        """Return the tokens that were spent, and those of unknown bills."""
        return self.rate.value(self._spent + self._unknown)

    @property
    def spending(self) -> Spending:
        """Tokens by model, whatever the unit; an unknown bill counts as the most it can be."""
        with _LOCK:
            return add_spending(self._bills, None)

    @property
    def left(self) -> float:
        """Tokens or dollars that a call can reserve now, in this account and those of its unit."""
        with _LOCK:
            return self.rate.value(max(0, self._free()))

    @property
    def left_after_pending(self) -> float:
        """Return what a call could reserve if all calls under way cost nothing."""
        with _LOCK:
            return self.rate.value(max(0, self._free(with_pending=True)))

    @property
    def max_left(self) -> float:
        """The most that calls can ever reserve: also what calls and grants may still return."""
        with _LOCK:
            rest = (one._size() - one._spent - one._unknown for one in _groups(self)[0])
            return self.rate.value(max(0, min(rest)))

    @property
    def needs_input(self) -> bool:
        """Return whether this account, or one above it, counts the input of calls."""
        return any(one.rate.needs_input for one in _upwards(self))

    def tokens_left(self, model: str = "", *, with_grants: bool = False) -> list[int]:
        """Return the completion tokens that are left here and in accounts of other units above.

        Args:
            model: The model's key or name. Without it, dollars are not counted.
            with_grants: Count all that calls and grants may still return.
        """
        found, one = list[int](), Bill(model, 1)
        for group in _groups(self):
            first = group[0]
            left = first.max_left if with_grants else first.left_after_pending
            if first.unit != "dollars":
                found.append(int(left))
            elif model and (price := first.rate.cost(one)):
                found.append(first.rate.units("left", left, least=0) // price)
        return found

    def reserve(
        self,
        tokens: int | None = None,
        *,
        keep: float = 0,
        at_least: int = 0,
        call: Bill = _NO_BILL,
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
        self,
        tokens: int | None = None,
        *,
        keep: float = 0,
        at_least: int = 0,
        call: Bill = _NO_BILL,
    ) -> Reservation:
        """Reserve as `reserve` does; other tasks of the event loop go on during the wait."""
        return await areserve_in([self], tokens, keep=keep, at_least=at_least, call=call)

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
        with _LOCK:
            for bill in bills_of(tokens):
                self._book(spent=bill)

    def share(self, fraction: float) -> float:
        """Return a fraction of the total: of tokens, whole ones and at least 1."""
        whole = self.total * fraction
        return whole if self.unit == "dollars" else max(1, math.ceil(whole))

    def limit(self, amount: float) -> Budget:
        """Open an account that draws on this one call by call; nothing is set aside for it.

        Args:
            amount: Tokens or dollars, in the unit of this budget.
        """
        return self._open_child(self._units(amount))

    def limit_tokens(self, tokens: int) -> Budget:
        """Open an account as `limit` does, in completion tokens whatever the unit of this one."""
        return self._open_child(
            COMPLETION_TOKENS.units("tokens", tokens, least=0), COMPLETION_TOKENS
        )

    def grant(self, amount: float, name: str | None = None) -> Budget:
        """Set an amount aside as an account of its own, which returns the rest when it is closed.

        Args:
            amount: The most that the grant gets, in the unit of this budget; less where less is
                left.
            name: Opens the grant once: later calls with this name return the same account.

        """
        wanted = self._units(amount)
        name = name or uuid4().hex
        with _LOCK:
            if name not in self._grants:
                made = self._open_child(min(wanted, max(0, self._free())))
                made._name, self._grants[name] = name, made
                self._book(aside=made._size())
            return self._grants[name]

    def raise_to(self, total: float) -> None:
        """Raise the total. Callers that wait go on, and accounts as large as this one grow, too.

        Args:
            total: The new total, in the unit of this budget; not less than it has.

        Raises:
            ValueError: It is less.
            InputError: A grant is to have more than its parent has left.
        """
        wanted = self.rate.units("total", total, least=1)
        with _LOCK:
            more = wanted - self._size()
            if more < 0:
                msg = f"total must be at least {self._text(self._size())}, as it is, not {total!r}"
                raise ValueError(msg)
            if self._name and self.parent and more > self.parent._free():
                left = self._text(max(0, self.parent._free()))
                msg = f"The parent of this grant has only {left} left. Raise the parent first."
                raise InputError(msg)
            self._grow(more)
        _notify_waiters()

    def raise_by(self, amount: float) -> None:
        """Let so much more be spent here: raise this account, and those above that are too small.

        Args:
            amount: Tokens or dollars, in the unit of this budget.
        """
        with _LOCK:
            wanted = max(0, self._free(with_pending=True))
            wanted += self.rate.units("amount", amount, least=1)
            needs = list[tuple[Budget, int]]()
            for account in _groups(self)[0]:
                rest = _free_in([account], with_pending=True)
                more = max(0, wanted - rest) if account._own is not None else 0
                needs.append((account, more))
                if account._name:  # its parent sets aside so much more
                    wanted = more
            for account, more in reversed(needs):
                account._grow(more)
        _notify_waiters()

    def open_run(
        self,
        amount: float | None = None,
        *,
        tokens: int | None = None,
        run: str = "",
        earlier: int | Spending = 0,
    ) -> Budget:
        """Open a limit for one run, which may have spent tokens before it was paused.

        The accounts of runs live as long as one invocation, so those above learn here, once, what
        this run spent earlier. An account that a user holds counted it when it was spent.

        Args:
            amount: The run's total in the unit of this budget; `None` for as much as this one has,
                also when that is raised.
            tokens: The run's total in completion tokens instead.
            run: The run's identity.
            earlier: What the run has spent before, in completion tokens or as the `spending` of its
                account; it counts in the total.
        """
        if tokens is not None:
            made = self.limit_tokens(tokens)
        else:
            made = self._open_child(None if amount is None else self._units(amount))
        made._runs = set()
        for bill in bills_of(earlier):
            made._add(bill)
        self.count_earlier(run, earlier)
        return made

    def count_earlier(self, run: str, earlier: int | Spending) -> None:
        """Count once, in an account of a run and those above, what a paused run spent before.

        Args:
            run: The paused run's identity.
            earlier: What it had spent, as in `open_run`.
        """
        with _LOCK:
            if self._runs is not None and run not in self._runs:
                self._runs.add(run)
                for bill in bills_of(earlier):
                    self._book(spent=bill, only_runs=True)

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

    def _units(self, amount: float) -> int:
        """Return an amount of this budget's unit; more dollars than it has raise an InputError."""
        units = self.rate.units("amount" if self.unit == "dollars" else "tokens", amount, least=0)
        if self.unit == "dollars" and units > self._size():
            msg = f"{amount} dollars are more than this budget of {self._text(self._size())} "
            raise InputError(msg + "has. Its parts are given in dollars, not in tokens.")
        return units

    def text(self, value: float) -> str:
        """Return a figure of this budget with its unit."""
        return self.rate.text(value)

    def _text(self, units: int) -> str:
        return self.rate.text(self.rate.value(units))

    def _size(self) -> int:
        if self._own is None:
            return self.parent._size() if self.parent else 0
        return self._own

    # What follows is called with the lock held.

    def _open_child(self, total: int | None, rate: Rate | None = None) -> Budget:
        made = Budget.__new__(Budget)
        made.rate, made._own = rate or self.rate, total
        made._open()
        made.parent = self
        return made

    def _grow(self, more: int) -> None:
        if more:
            before = self._held()
            self._own = self._size() + more
            if self._name and self.parent:
                self.parent._book(aside=self._held() - before)

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
        return max(at_stake, self._size() - self._spent - self._unknown)

    def _free(self, *, with_pending: bool = False) -> int:
        """Return what a call can reserve in this account and in those of its unit above it."""
        return _free_in(_groups(self)[0], with_pending=with_pending)

    def _add(self, bill: Bill, *, unknown: bool = False) -> None:
        units = self.rate.cost(bill)
        self._spent += 0 if unknown else units
        self._unknown += units if unknown else 0
        self._bills = add_spending(self._bills, spending_of([bill]))

    def _book(  # noqa: PLR0913 -- the parts of an account
        self,
        *,
        reserved: Bill = _NO_BILL,
        returned: Bill = _NO_BILL,
        aside: int = 0,
        spent: Bill = _NO_BILL,
        unknown: Bill = _NO_BILL,
        only_runs: bool = False,
    ) -> None:
        """Add to the account and to every account above it.

        The only place where tokens are counted. A parent has set the tokens of a grant aside, and
        so counts the change of what the grant holds instead of its calls. An account of another
        unit has set nothing aside.
        """
        for group in _groups(self):
            rate, is_set_aside = group[0].rate, False
            pending = rate.cost(reserved) - rate.cost(returned)
            for account in group:
                if only_runs and account._runs is None:
                    return
                before = account._held()
                account._pending += 0 if is_set_aside else pending
                account._aside += aside
                for bill, is_unknown in ((spent, False), (unknown, True)):
                    if bill != _NO_BILL:
                        account._add(bill, unknown=is_unknown)
                if account._name:
                    is_set_aside, aside = True, account._held() - before
            aside = 0


class Reservation:
    """Tokens reserved for one call until the call is settled.

    Attributes:
        tokens: The call's cap in completion tokens.
        accounts: The accounts that the tokens were reserved in; all others are above these.
        call: The model and the bound of the input, where an account counts it.
        bill: What was counted, once the call is settled; the most that it may be if it is unknown.
    """

    def __init__(self, tokens: int, accounts: Sequence[Budget], call: Bill = _NO_BILL) -> None:
        self.tokens = tokens
        self.accounts = tuple(accounts)
        self.call = call
        self.bill: Bill | None = None

    @property
    def most(self) -> Bill:
        """The most that the call can cost."""
        return self.call._replace(output=self.tokens)

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

    def settle_bills(self, bills: Sequence[Bill]) -> None:
        """Count what several calls cost that were made under this reservation."""
        self._close(spent=bills)

    def forfeit(self) -> None:
        """Keep all tokens reserved for good: the call may have been billed, by whatever amount."""
        self._close(unknown=self.most)

    def _close(self, *, spent: Sequence[Bill] = (), unknown: Bill = _NO_BILL) -> None:
        with _LOCK:
            if self.bill is not None:
                return
            first = spent[0] if spent else _NO_BILL
            self.bill = unknown if unknown != _NO_BILL else first
            for account in self.accounts:
                for bill in spent[1:]:
                    account._book(spent=bill)
                account._book(returned=self.most, spent=first, unknown=unknown)
        _notify_waiters()

    def __enter__(self) -> Self:
        _OPEN.set((*_OPEN.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _OPEN.set(tuple(one for one in _OPEN.get() if one is not self))
        self.forfeit()


def reserve_in(
    accounts: Sequence[Budget],
    tokens: int | None = None,
    *,
    keep: float = 0,
    at_least: int = 0,
    call: Bill = _NO_BILL,
) -> Reservation:
    """Reserve the same tokens in several accounts of different trees, as `Budget.reserve` does.

    Args:
        accounts: The accounts, of which none is above another.
        tokens: The most that the call may cost. `None` for all that is left.
        keep: Tokens or dollars to leave untouched in the first of the accounts.
        at_least: Tokens worth waiting for.
        call: The model and the bound of the input.

    Raises:
        BudgetUsedUpError: Nothing is left in one of them.
        InputError: An account counts the input, and `call` is missing.
        ValueError: A number of tokens is not whole, or is negative.
    """
    waits = not _is_in_event_loop()
    while isinstance(
        made := _try_reserve(accounts, tokens, keep, at_least, call, waits=waits), Future
    ):
        made.result()
    return made


async def areserve_in(
    accounts: Sequence[Budget],
    tokens: int | None = None,
    *,
    keep: float = 0,
    at_least: int = 0,
    call: Bill = _NO_BILL,
) -> Reservation:
    """Reserve as `reserve_in` does; other tasks of the event loop go on during the wait."""
    while isinstance(
        made := _try_reserve(accounts, tokens, keep, at_least, call, waits=True), Future
    ):
        await asyncio.wrap_future(made)
    return made


def _try_reserve(  # noqa: PLR0913 -- as `reserve_in`
    accounts: Sequence[Budget],
    tokens: int | None,
    keep: float,
    at_least: int,
    call: Bill,
    *,
    waits: bool,
) -> Reservation | Future[None]:
    """Reserve now, or return a future that is done when a call has returned tokens."""
    tokens = None if tokens is None else whole_number("tokens", tokens, least=1)
    kept = accounts[0].rate.units("keep", keep, least=0)
    waits = waits and not _OPEN.get()  # the call might wait for itself
    if call.model == "" and any(one.needs_input for one in accounts):
        msg = "A budget that counts the input needs the model and the prompt of a call. "
        raise InputError(msg + "Give reserve(…, call=bound_input(model, messages)).")
    with _LOCK:
        free = min(_cap(one, call, 0 if n else kept) for n, one in enumerate(accounts))
        cap = free if tokens is None else min(tokens, free)
        enough = at_least if tokens is None else min(tokens, at_least)
        may_return = any(one._pending for account in accounts for one in _segment(account))
        if free < enough and waits and may_return:
            future: Future[None] = Future()
            _WAITING.add(future)
            return future
        if cap < 1:
            raise _used_up(accounts, call, kept)
        made = Reservation(cap, accounts, call)
        for account in accounts:
            account._book(reserved=made.most)
        return made


def _cap(account: Budget, call: Bill, kept: int) -> int:
    """Return the completion tokens that fit into an account and those above it.

    What is kept, and what was set aside below in completion tokens, is for one more call: it has
    the same input and, besides, the completion of this one.
    """
    cap, aside = _MOST_TOKENS, 0
    for group in _groups(account):
        rate = group[0].rate
        free = _free_in(group)
        given, per_token = rate.cost(call), rate.cost(call._replace(output=1)) - rate.cost(call)
        if kept or aside:
            longer = call._replace(input=call.input + 1, written=call.written + 1)
            free -= kept + given + aside * per_token
            per_token += rate.cost(longer) - given
        if given > free or not per_token:
            cap = min(cap, 0 if given > free else cap)
        else:
            cap = min(cap, (free - given) // per_token)
        if rate is COMPLETION_TOKENS:
            aside = max(aside, kept, *(one._aside for one in _until_grant(group)))
        kept = 0
    return cap


def _used_up(accounts: Sequence[Budget], call: Bill, kept: int) -> BudgetUsedUpError:
    """Return an error that names the highest account that is used up; users know that one."""
    for account in accounts:
        for group in _groups(account)[::-1]:
            rate = group[0].rate
            least, keep = rate.cost(call._replace(output=1)), kept if group[0] is accounts[0] else 0
            for one in [*_until_grant(group)][::-1]:
                if (free := _free_in(_groups(one)[0])) < least + keep:
                    prompt = one._text(rate.cost(call)) if rate.cost(call) else ""
                    left = one._text(max(0, free))
                    return BudgetUsedUpError(one._text(one._size()), prompt=prompt, left=left)
    return BudgetUsedUpError(accounts[0]._text(accounts[0]._size()))


def _free_in(group: Sequence[Budget], *, with_pending: bool = False) -> int:
    """Return what a call can reserve in accounts of one unit, each the parent of the one before."""
    free, set_aside = group[0]._size(), False
    for account in group:
        held = account._aside + (0 if with_pending else account._pending)
        rest = account._size() - account._spent - account._unknown - held
        # What was set aside is there, unless a server ignored its cap and took some of it.
        free = min(free, free + rest if set_aside else rest)
        if account._name:
            free, set_aside = (0 if account._closed else free), True
    return free


def _upwards(account: Budget | None) -> Iterator[Budget]:
    """Yield the account and every account above it."""
    while account is not None:
        yield account
        account = account.parent


def _groups(account: Budget) -> list[list[Budget]]:
    """Return the account and every account above it, in groups of one unit."""
    return [[*group] for _, group in groupby(_upwards(account), key=lambda one: one.rate)]


def _until_grant(group: Sequence[Budget]) -> Iterator[Budget]:
    """Yield accounts of one unit up to the first grant, whose tokens are set aside above."""
    for one in group:
        yield one
        if one._name:
            return


def _segment(account: Budget) -> Iterator[Budget]:
    """Yield the accounts that count a call in this account as pending."""
    for group in _groups(account):
        yield from _until_grant(group)


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
