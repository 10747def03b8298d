"""One account of tokens or dollars: a call reserves its cap before it is made, and settles after.

A reservation counts in its account and in every account above it, so that calls at the same time,
in threads and in tasks, never spend more than the total of any of them. A *limit* draws on its
parent call by call. A *grant* is set aside in its parent at once, and returns the rest when it is
closed.

An account counts whole units: tokens, or pico-dollars. Its `Rate` turns a call into units.
"""
# ruff: noqa: SLF001 -- the accounts of a tree are one thing to the lock

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from numbers import Integral
from typing import Literal, Self

from pb_graph.budget.rates import (
    ALL_TOKENS,
    COMPLETION_TOKENS,
    Bill,
    Dollars,
    Prices,
    Rate,
    Spending,
    Unit,
    pico_dollars,
)
from pb_graph.errors import BudgetUsedUpError, InputError

_NO_CALL = Bill()
_MOST_TOKENS = 10**9  # where a model costs nothing, and no cap was given
# One lock for all accounts, held for some microseconds: a reservation concerns several of them.
_LOCK = threading.Lock()
WAITING: set[Future[None]] = set()  # callers that wait for tokens
_OPEN: ContextVar[int] = ContextVar("pb_graph_open_reservations", default=0)


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
        unit: The unit of all figures: completion tokens, tokens or dollars.
        rate: The way in which this account counts a call.
        parent: The account that this one draws on.
        needs_input: Whether this account, or one above it, counts the input of calls.

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
        self._begin(rates.get(name) or Dollars(prices))
        self._own: int | None = self._units(name, figure, least=1)

    def _open(self, rate: Rate, size: int | None) -> Budget:
        made = object.__new__(Budget)
        made._begin(rate, size, self)
        return made

    def _begin(self, rate: Rate, size: int | None = None, parent: Budget | None = None) -> None:
        self.rate, self.parent = rate, parent
        self.unit: Unit = rate.unit
        self.needs_input: bool = rate.needs_input or (parent is not None and parent.needs_input)
        self._own = size  # None: as much as the parent has
        self._spent = self._unknown = 0
        self._pending = 0  # caps of calls under way, but for those in grants
        self._aside = 0  # what the grants hold
        self._tokens: Spending = {}
        self._key: object = None  # of a grant, in its parent
        self._grants: dict[object, Budget] = {}  # those that are open
        self._is_closed = False
        # Paused runs that this account has counted; None for an account that a user holds.
        self._runs: set[str] | None = None

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
    def left(self) -> float:
        """Tokens or dollars that a call can reserve now, in this account and those of its unit."""
        with _LOCK:
            return self._value(max(0, self._free()))

    @property
    def spending(self) -> Spending:
        """Tokens by model, whatever the unit; an unknown bill counts as the most it can be."""
        with _LOCK:
            return {model: [*counts] for model, counts in self._tokens.items()}

    @property
    def root(self) -> Budget:
        """The account that all tokens come from."""
        return self if self.parent is None else self.parent.root

    def is_within(self, other: Budget) -> bool:
        """Return whether what is spent in this account is spent in `other`, too."""
        return self is other or (self.parent is not None and self.parent.is_within(other))

    def reserve(  # noqa: PLR0913 -- the parts of a reservation
        self,
        tokens: int | None = None,
        *,
        keep: float = 0,
        at_least: int = 1,
        wait_for: int = 0,
        call: Bill = _NO_CALL,
        also: Sequence[Budget] = (),
    ) -> Reservation:
        """Set tokens aside for a call that is about to be made.

        Args:
            tokens: Completion tokens that the call may cost. `None` for all that is left.
            keep: Tokens or dollars, in the unit of this budget, to leave for one more call that has
                the same input and the completion.
            at_least: Fewest completion tokens that are worth the call.
            wait_for: Completion tokens worth waiting for while calls under way may return some.
                There is no wait within a call (``with budget.reserve(…):``), nor in a thread that
                runs an event loop; use `areserve` there.
            call: The model and the bound of the input, as `bound_input` returns them. A budget of
                all tokens or of dollars needs them.
            also: Accounts of other trees, which the same tokens are reserved in.

        Returns:
            At least `at_least` and at most `tokens`. As a context manager, the reservation is
            forfeited if the block is left before it was settled.

        Raises:
            BudgetUsedUpError: Less than `at_least` is left, or the input alone does not fit.
            InputError: A budget counts the input, and `call` is missing.
            ValueError: A number of tokens is not whole, or is negative.
        """
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            wait_for = 0  # a wait would block all tasks
        attempt = partial(_try_reserve, (self, *also), tokens, keep, at_least, call)
        while isinstance(made := attempt(wait_for=wait_for), Future):
            made.result()
        return made

    async def areserve(  # noqa: PLR0913 -- as `reserve`
        self,
        tokens: int | None = None,
        *,
        keep: float = 0,
        at_least: int = 1,
        wait_for: int = 0,
        call: Bill = _NO_CALL,
        also: Sequence[Budget] = (),
    ) -> Reservation:
        """Reserve as `reserve` does; other tasks of the event loop go on during the wait."""
        attempt = partial(_try_reserve, (self, *also), tokens, keep, at_least, call)
        while isinstance(made := attempt(wait_for=wait_for), Future):
            await asyncio.wrap_future(made)
        return made

    def charge(self, tokens: int | Spending, *, run: str | None = None) -> None:
        """Count tokens that nothing was reserved for, such as those spent in another process.

        Args:
            tokens: Completion tokens, or the `spending` of another budget. An account that counts
                the input, or one below it, takes the latter alone.
            run: Identity of the paused run that spent them. Accounts of runs count it once; one
                that a user holds counted it when the tokens were spent.
        """
        if isinstance(tokens, dict):
            bills = bills_of(tokens)
        else:
            bills = [Bill(output=whole_number("tokens", tokens, least=0))]
            if self.needs_input:
                msg = f"{tokens} tokens cannot be charged to a budget that counts the input. "
                raise InputError(msg + "Give the `spending` of the other budget.")
        with _LOCK:
            of_user = None
            if run is not None:
                if self._runs is None or run in self._runs:
                    return
                self._runs.add(run)
                above = (one for chain in self._chains() for one in chain)
                of_user = next((one for one in above if one._runs is None), None)
            for bill in bills:
                self._book(bill, below=of_user)

    def limit(
        self,
        amount: float | None = None,
        *,
        tokens: int | None = None,
        earlier: Spending | None = None,
    ) -> Budget:
        """Open an account for one run, which draws on this one call by call; nothing is set aside.

        Args:
            amount: Tokens or dollars, in the unit of this budget. `None` for as much as this one
                has, also when that is raised.
            tokens: Completion tokens, whatever the unit of this budget, instead of `amount`.
            earlier: Tokens that the run spent before it was paused; they count in the limit alone.
        """
        if tokens is not None:
            made = self._open(COMPLETION_TOKENS, whole_number("tokens", tokens, least=0))
        else:
            made = self._open(self.rate, None if amount is None else self._part(amount))
        made._runs = set()
        with _LOCK:
            for bill in bills_of(earlier or {}):
                made._book(bill, below=self)
        return made

    def grant(self, amount: float, name: str | None = None) -> Budget:
        """Set an amount aside as an account of its own, which returns the rest when it is closed.

        Args:
            amount: The most that the grant gets, in the unit of this budget; less where less is
                left.
            name: Opens the grant once: later calls with this name return the same account.
        """
        wanted, key = self._part(amount), name or object()
        with _LOCK:
            if key not in self._grants:
                size = min(wanted, max(0, self._free()))
                made = self._grants[key] = self._open(self.rate, size)
                made._key = key
                self._book(aside=size)
            return self._grants[key]

    def close(self) -> None:
        """Return the unspent part of a grant to its parent. Calls in flight still settle.

        A limit returns what its grants had set aside. Budgets other than grants stay open.
        """
        with _LOCK:
            self._end()
        _notify_waiters()

    def raise_to(self, total: float) -> None:
        """Raise the total. Callers that wait go on, and accounts as large as this one grow, too.

        Args:
            total: The new total, in the unit of this budget. A grant gets no more than its parent
                has left.

        Raises:
            ValueError: The total would fall.
        """
        wanted = self._units("total", total, least=1)
        with _LOCK:
            more = wanted - self._size()
            if more < 0:
                msg = f"total must be at least {self._text(self._size())}, as it is, not {total!r}"
                raise ValueError(msg)
            if self._key and self.parent:
                more = min(more, max(0, self.parent._free()))
            self._grow(more)
        _notify_waiters()

    def raise_by(self, amount: float) -> None:
        """Let so much more be spent here: raise this account, and those above that are too small.

        Args:
            amount: Tokens or dollars, in the unit of this budget.
        """
        units = self._units("amount", amount, least=1)
        with _LOCK:
            wanted = max(0, self._free(after_pending=True)) + units
            for account in self._chains()[0]:
                rest = account._unspent() - account._aside
                if account._own is not None:
                    account._grow(max(0, wanted - rest))
                if account._key:  # which took as much from its parent
                    wanted = 0
        _notify_waiters()

    def tokens_left(self, model: str = "", *, with_grants: bool = False) -> int:
        """Return the completion tokens that calls can have if those under way cost nothing.

        Args:
            model: The model's key or name. Without it, dollars are not counted.
            with_grants: Count all that grants may still return, too.
        """
        tokens = _MOST_TOKENS
        with _LOCK:
            for chain in self._chains():
                left, rate = chain[0]._free(after_pending=True), chain[0].rate
                if with_grants:
                    left = min(one._unspent() for one in chain)
                if rate.unit != "dollars":
                    tokens = min(tokens, left)
                elif model:
                    tokens = min(tokens, _tokens_for(left, rate, Bill(model)))
        return max(0, tokens)

    def share(self, fraction: float) -> float:
        """Return a fraction of the total: of tokens, whole ones and at least 1."""
        whole = self.total * fraction
        return whole if self.unit == "dollars" else max(1, math.ceil(whole))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

    def _units(self, name: str, figure: object, *, least: int = 0) -> int:
        if self.unit == "dollars":
            return pico_dollars(name, figure, least=least)
        return whole_number(name, figure, least=least)

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

    def _chains(self) -> list[list[Budget]]:
        """Return this account and every account above it, in one list for each unit."""
        chains: list[list[Budget]] = []
        account: Budget | None = self
        while account is not None:
            if not chains or account.rate is not chains[-1][0].rate:
                chains.append([])
            chains[-1].append(account)
            account = account.parent
        return chains

    def _path(self) -> list[Budget]:
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
        cap, aside = _MOST_TOKENS, 0
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

    def _book(  # noqa: PLR0913 -- the parts of an account
        self,
        bill: Bill | None = None,
        *,
        is_unknown: bool = False,
        reserved: Bill | None = None,
        returned: Bill | None = None,
        aside: int = 0,
        below: Budget | None = None,
    ) -> None:
        """Add to this account and to every account above it, or to those below an account.

        The only place where tokens are counted. A parent has set the tokens of a grant aside, and
        so counts the change of what the grant holds instead of its calls. An account of another
        unit has set nothing aside.
        """
        for chain in self._chains():
            cost, is_set_aside = chain[0].rate.cost, False
            units, more, less = (cost(one) if one else 0 for one in (bill, reserved, returned))
            for account in chain:
                if account is below:
                    return
                before = account._held()
                account._pending += 0 if is_set_aside else more - less
                account._aside += aside
                account._spent += 0 if is_unknown else units
                account._unknown += units if is_unknown else 0
                if bill:
                    _add_bill(account._tokens, bill)
                if account._key:
                    is_set_aside, aside = True, account._held() - before
            aside = 0


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
        with _LOCK:
            if self.bill is not None:
                return
            self.bill = bills[0]
            for account in self.accounts:
                account._book(returned=self.most)
                for bill in bills:
                    account._book(bill, is_unknown=is_unknown)
        _notify_waiters()

    def __enter__(self) -> Self:
        _OPEN.set(_OPEN.get() + 1)
        return self

    def __exit__(self, *_: object) -> None:
        _OPEN.set(max(0, _OPEN.get() - 1))
        self.forfeit()


def whole_number(name: str, value: object, *, least: int) -> int:
    """Return `value` as an int of at least `least`; other values raise a ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, Integral)) or value < least:
        msg = f"{name} must be a whole number of at least {least}, not {value!r}"
        raise ValueError(msg)
    return int(value)


def spending_of(bills: Iterable[Bill]) -> Spending:
    """Return the tokens of bills by model."""
    total: Spending = {}
    for bill in bills:
        _add_bill(total, bill)
    return total


def bills_of(spending: Spending) -> list[Bill]:
    """Return one bill for each model."""
    return [Bill(model, *counts) for model, counts in spending.items()]


def _try_reserve(  # noqa: PLR0913 -- as `reserve`
    accounts: Sequence[Budget],
    tokens: int | None,
    keep: float,
    at_least: int,
    call: Bill,
    *,
    wait_for: int,
) -> Reservation | Future[None]:
    """Reserve now, or return a future that is done when a call has returned tokens."""
    if call.model == "" and any(one.needs_input for one in accounts):
        msg = "A budget that counts the input needs the model and the prompt of a call. "
        raise InputError(msg + "Give reserve(…, call=bound_input(model, messages)).")
    most = _MOST_TOKENS if tokens is None else whole_number("tokens", tokens, least=1)
    kept = [accounts[0]._units("keep", keep)] + [0] * (len(accounts) - 1)
    with _LOCK:
        caps = [one._cap(call, units) for one, units in zip(accounts, kept, strict=True)]
        cap = min(most, *caps)
        # Within a call there is no wait: it might be for that call.
        if cap < min(most, wait_for) and not _OPEN.get():
            path = [one for account in accounts for one in account._path()]
            if any(one._pending for one in path):
                future: Future[None] = Future()
                WAITING.add(future)
                return future
        if cap < max(1, at_least):
            raise _used_up(accounts, call, at_least)
        made = Reservation(cap, accounts, call)
        for account in accounts:
            account._book(reserved=made.most)
        return made


def _used_up(accounts: Sequence[Budget], call: Bill, at_least: int) -> BudgetUsedUpError:
    """Return an error that names the highest account that is used up; users know that one."""
    least = call._replace(output=at_least)
    path = [one for account in accounts for one in reversed(account._path())]
    short = (one for one in path if one._free() < one.rate.cost(least))
    first = next(short, accounts[0])
    prompt = first.rate.cost(call)
    return BudgetUsedUpError(
        first._text(first._size()),
        prompt=first._text(prompt) if prompt else "",
        left=first._text(max(0, first._free())),
    )


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
    return (units - given) // each if each else _MOST_TOKENS


def _add_bill(spending: Spending, bill: Bill) -> None:
    if not (bill.output or bill.input):
        return  # a refused call
    counts = spending.setdefault(bill.model, [0] * 5)
    added = [a + b for a, b in zip(counts, bill[1:5], strict=False)]
    counts[:] = [*added, max(counts[4], bill.largest or bill.input)]


def _notify_waiters() -> None:
    """Let callers that wait for tokens try again; call it without the lock."""
    with _LOCK:
        waiting = [*WAITING]
        WAITING.clear()
    for future in waiting:
        if future.set_running_or_notify_cancel():
            future.set_result(None)
