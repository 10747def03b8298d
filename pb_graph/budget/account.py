"""Reserve and settle tokens or dollars: a call reserves its cap before it is sent.

A reservation counts in its account and in every account above it, so that calls at the same time,
in threads and in tasks, never spend more than the total of any of them.
"""
# ruff: noqa: SLF001 -- the accounts of a tree are one thing to the lock

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, Self

from pb_graph.budget.bill import Bill, add_bills, bills_of, spending_of, whole_number
from pb_graph.budget.rates import (
    ALL_TOKENS,
    COMPLETION_TOKENS,
    MAX_TOKENS,
    Dollars,
    Prices,
    Rate,
    pico_dollars,
)
from pb_graph.errors import BudgetUsedUpError, InputError

if TYPE_CHECKING:
    from pb_graph.types import Spending

# One lock for all accounts, held for microseconds: a reservation changes several accounts.
_LOCK = threading.Lock()
WAITING: set[Future[None]] = set()  # callers that wait for tokens
_NO_CALL = Bill()
_MAX_RUNS, _MAX_CHARGED = 10_000, 100  # that a budget remembers
_OPEN: ContextVar[int] = ContextVar("pb_graph_open_reservations", default=0)


class Budget:
    """An account of tokens or dollars that agents, graphs and threads share.

    Give one of the three totals. A budget of all tokens or of dollars bounds the input of a call
    before it is made, and lowers the call's cap until both fit.

    A call whose cost is unknown keeps its cap reserved: a budget ends early rather than being
    overspent. Only a server that ignores its cap can spend more than was reserved. A budget belongs
    to its process: a deep copy is the same account, and pickling raises `TypeError`.

    Args:
        total: Completion tokens, at least 1.
        total_tokens: Input and completion tokens, at least 1.
        usd: Dollars, more than 0.
        prices: Dollars per million tokens by model, of input, output and cached input:
            ``{"gpt-5-mini": (0.25, 2.0, 0.025)}``. ``"auto"`` for the list of `genai-prices`.
        bound: The most input of a call: ``"learned"`` from settled calls of the same model and
            server, or ``"bytes"``, a token for each byte, which rests on no estimate.

    Attributes:
        unit: The unit of all figures: completion tokens, tokens or dollars.
        parent: The account that this one draws on.

    Raises:
        InputError: If not exactly one total is given, a price is no number, or a figure, here and
            in the methods, is not whole or is too small.
    """

    def __init__(
        self,
        total: int | None = None,
        *,
        total_tokens: int | None = None,
        usd: float | None = None,
        prices: Prices | Literal["auto"] = "auto",
        bound: Literal["learned", "bytes"] = "learned",
    ) -> None:
        totals = {"total": total, "total_tokens": total_tokens, "usd": usd}
        given = [(name, figure) for name, figure in totals.items() if figure is not None]
        if len(given) != 1:
            msg = "Give one total: Budget(4000), Budget(total_tokens=60_000) or Budget(usd=0.5)."
            raise InputError(msg)
        name, figure = given[0]
        if name == "total" and isinstance(figure, float) and 0 < figure < MAX_TOKENS:
            msg = f"total must be a whole number of tokens, not {figure}. "
            msg += f"For dollars write Budget(usd={figure})."
            raise InputError(msg)
        rates = {"total": COMPLETION_TOKENS, "total_tokens": ALL_TOKENS}
        self._begin(rates.get(name) or Dollars(prices))
        self.is_learned = bound == "learned"
        self._own: int | None = self._units(name, figure, minimum=1)

    def _begin(self, rate: Rate, size: int | None = None, parent: Budget | None = None) -> None:
        self.rate, self.parent = rate, parent
        self.unit = rate.unit
        self.is_learned = parent is None or parent.is_learned
        self.needs_input: bool = rate.needs_input or (parent is not None and parent.needs_input)
        self._own = size  # None: the size of the parent
        self._spent = self._unknown = self._pending = 0  # pending: caps of unsettled calls
        self._bills: list[Bill] = []
        self._grants: dict[object, Budget] = {}  # open grants of this account and its limits
        self._key: object = None  # identifies an open grant
        self.runs_below: set[str] = set()  # runs of agents whose tokens are counted here
        self._seen: OrderedDict[str, None] = OrderedDict()  # runs of agents that began here
        self._charged: list[int | Spending] = []  # earlier spending that the user has charged
        self._runs: set[str] | None = None  # paused runs already counted; None: a user's account

    def _open(self, rate: Rate, size: int | None) -> Budget:
        account = object.__new__(Budget)
        account._begin(rate, size, self)
        return account

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
        """Largest possible cost of calls with an unknown bill. These tokens are never released."""
        return self._value(self._unknown)

    @property
    def left(self) -> float:
        """Tokens or dollars that a call can reserve now, within all parents of the same unit."""
        with _LOCK:
            return self._value(max(0, self._free()))

    @property
    def spending(self) -> Spending:
        """Spent tokens by model, whatever the budget's unit. An unknown bill counts in full."""
        with _LOCK:
            return spending_of(self._bills)

    @property
    def line(self) -> list[Budget]:
        """This account and every account above it, up to the root."""
        return [self, *(self.parent.line if self.parent else ())]

    def reserve(  # noqa: PLR0913 -- all but the first by name
        self,
        tokens: int | None = None,
        *,
        keep: float = 0,
        at_least: int = 1,
        wait_for: int = 0,
        call: Bill = _NO_CALL,
        also: Sequence[Budget] = (),
    ) -> Reservation:
        """Reserve tokens for a call.

        Nothing waits in an event loop, where `areserve` waits, and nothing waits within
        ``with budget.reserve(…):``, because the call might wait for itself.

        Args:
            tokens: Completion tokens that the call may cost. `None` for all that is left.
            keep: Amount in the budget's unit that stays for a later call, whose prompt also has
                the completion of this call.
            at_least: Fewest completion tokens that are worth the call.
            wait_for: Completion tokens that are worth waiting for, while calls under way may
                return some.
            call: The model and the bound of the input, as `bound_input` returns them. A budget of
                all tokens or of dollars needs them.
            also: Accounts of other trees, which the same tokens are reserved in.

        Returns:
            At least `at_least` and at most `tokens`. As a context manager, the reservation is
            forfeited if the block is left before it was settled.

        Raises:
            BudgetUsedUpError: If less than `at_least` is left, or the input alone does not fit.
            InputError: If a budget counts the input, and `call` is missing; if a number of tokens
                is not whole, or is negative.
        """
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            wait_for = 0  # a wait would block all tasks
        limits: dict[str, Any] = {"keep": keep, "at_least": at_least, "wait_for": wait_for}
        while isinstance(outcome := self._try_reserve(tokens, call, also, **limits), Future):
            outcome.result()
        return outcome

    async def areserve(self, tokens: int | None = None, **parts: Any) -> Reservation:  # noqa: ANN401
        """Reserve tokens as `reserve` does, without blocking the event loop."""
        while isinstance(outcome := self._try_reserve(tokens, **parts), Future):
            await asyncio.wrap_future(outcome)
        return outcome

    def charge(
        self, tokens: int | Spending, *, run: str | None = None, is_agent: bool = False
    ) -> None:
        """Charge tokens without a reservation, such as earlier spending of another process.

        Args:
            tokens: Completion tokens, or the `spending` of another budget. An account that counts
                input, or has such a parent, accepts only a `Spending`.
            run: Identity of the paused run that spent them. Each account of a run counts it once.
                A user's own `Budget` is skipped: it counted the tokens when they were spent.
            is_agent: Whether it is charged to a user's own `Budget` that has not seen the run
                begin, too, unless the user has charged the same tokens.
        """
        if isinstance(tokens, dict):
            bills = bills_of(tokens)
        else:
            bills = [Bill(output=whole_number("tokens", tokens, minimum=0))]
            if self.needs_input:
                msg = f"{tokens} tokens cannot be charged to a budget that counts the input. "
                raise InputError(msg + "Give the `spending` of the other budget.")
        with _LOCK:
            of_user = next((account for account in self.line if account._runs is None), None)
            if run is None:
                self._count(bills)
                self._charged = [*self._charged, tokens][-_MAX_CHARGED:]
            elif of_user and is_agent and of_user._is_from_elsewhere(run, tokens):
                of_user._count(bills)
            if run is not None and self._runs is not None and run not in self._runs:
                self._runs.add(run)
                self._count(bills, below=of_user)

    def _is_from_elsewhere(self, run: str, tokens: int | Spending) -> bool:
        """Return whether this account has not counted the earlier tokens of a run."""
        is_known = run in self._seen or tokens in self._charged
        if run not in self._seen and is_known:
            self._charged.remove(tokens)
        self._seen[run] = None
        if len(self._seen) > _MAX_RUNS:
            self._seen.popitem(last=False)
        return not is_known

    def limit(
        self,
        amount: float | None = None,
        *,
        tokens: int | None = None,
        earlier: Spending | None = None,
    ) -> Budget:
        """Open an account for one run below this account. No tokens are set aside.

        Args:
            amount: Tokens or dollars, in the unit of this budget. `None` for the size of this
                budget, also after that is raised.
            tokens: Completion tokens, whatever the unit of this budget, instead of `amount`.
            earlier: Tokens that the run spent before it was paused; they count in the limit alone.
        """
        if tokens is not None:
            account = self._open(COMPLETION_TOKENS, whole_number("tokens", tokens, minimum=0))
        else:
            account = self._open(self.rate, None if amount is None else self._part(amount))
        account._runs = set()
        if earlier:
            account._count(bills_of(earlier), below=self)
        return account

    def grant(self, amount: float, name: str | None = None) -> Budget:
        """Set an amount aside as a separate account. Closing the account returns the rest.

        Args:
            amount: The most that the grant gets, in the unit of this budget; less where less is
                left.
            name: Opens the grant once: later calls with this name return the same account, which
                they enlarge to a larger amount.
        """
        units, key = self._part(amount), (self, name) if name else object()
        with _LOCK:
            if key not in self._grants:
                grant = self._open(self.rate, min(units, max(0, self._free())))
                grant._key = key
                grant._runs = None if self._runs is None else set()
                for account in self._until_grant():
                    account._grants[key] = grant
            grant = self._grants[key]
            grant._own = max(grant._size(), min(units, grant._size() + max(0, self._free())))
            return grant

    def close(self) -> None:
        """Return the unspent part of a grant to its parent. Calls in flight still settle.

        A limit returns what its grants had set aside. Budgets other than grants stay open.
        """
        with _LOCK:
            for grant in (*self._grants.values(), self):
                if grant._key and grant.parent:
                    for account in grant.parent._until_grant():
                        del account._grants[grant._key]
                    grant._key, grant._own = None, grant._spent + grant._unknown + grant._pending
        _notify_waiters()

    def raise_to(self, total: float) -> None:
        """Raise the total, in the unit of this budget, and those of parents with too little left.

        Waiting callers continue, and child accounts as large as this one grow, too.

        Raises:
            InputError: If the total would fall.
        """
        units = self._units("total", total, minimum=1)
        with _LOCK:
            more = units - self._size()
            if more < 0:
                msg = f"total must not fall below {self.rate.text(self.total)}, but is {total}"
                raise InputError(msg)
            target = self._free(after_pending=True) + more
            for account in self._chains()[0]:
                short = more if account is self else target - account._rest(after_pending=True)
                if account._own is not None:
                    account._own += max(0, short)
                if account._key:  # a grant's size is already set aside in its parent
                    target = 0
        _notify_waiters()

    def tokens_left(self, model: str = "") -> int:
        """Return the completion tokens that are available if pending calls cost nothing.

        Without the key or the name of a model, dollars are not counted.
        """
        with _LOCK:
            return self._cap(Bill(model) if model else _NO_CALL, after_pending=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, _: object) -> Self:
        return self  # two accounts would spend twice as much

    def __reduce__(self) -> str:
        msg = "A Budget cannot be pickled: it belongs to its process. Open a new Budget there."
        raise TypeError(msg)

    def _units(self, name: str, figure: object, *, minimum: int = 0) -> int:
        parse = pico_dollars if self.unit == "dollars" else whole_number
        return parse(name, figure, minimum=minimum)

    def _part(self, amount: float) -> int:
        units = self._units("amount", amount)
        if self.unit == "dollars" and units > self._size():
            msg = f"{amount} dollars are more than this budget of {self.rate.text(self.total)} "
            raise InputError(msg + "has. Its parts are given in dollars, not in tokens.")
        return units

    def _value(self, units: int) -> float:
        return units if self.rate.scale == 1 else units / self.rate.scale

    # Callers of the methods from here to `_count` hold the lock.

    def _chains(self) -> list[list[Budget]]:
        """Return this account and every account above it, in one list for each unit."""
        return [[*chain] for _, chain in groupby(self.line, attrgetter("rate"))]

    def _until_grant(self) -> list[Budget]:
        """Return this account and those of its unit above it, up to a grant."""
        chain = self._chains()[0]
        grants = [place for place, account in enumerate(chain, 1) if account._key]
        return chain[: grants[0]] if grants else chain

    def _size(self) -> int:
        if self._own is None:
            return self.parent._size() if self.parent else 0
        return self._own

    def _unspent(self, *, after_pending: bool) -> int:
        return self._size() - self._spent - self._unknown - (0 if after_pending else self._pending)

    def _aside(self, *, after_pending: bool = False) -> int:
        """Return the amount that the grants of this account hold, without their pending calls."""
        left = (grant._unspent(after_pending=after_pending) for grant in self._grants.values())
        return sum(max(0, units) for units in left)

    def _rest(self, *, after_pending: bool = False) -> int:
        """Return the amount that a call can reserve in this account alone."""
        return self._unspent(after_pending=after_pending) - self._aside(after_pending=after_pending)

    def _free(self, *, after_pending: bool = False) -> int:
        """Return the amount that a call can reserve here and in the parents of the same unit."""
        own = len(self._until_grant())
        rests = [account._rest(after_pending=after_pending) for account in self._chains()[0]]
        # Parents have what they set aside, unless a server ignored a cap and spent it.
        return min(rests[:own]) + sum(min(0, rest) for rest in rests[own:])

    def _cap(self, call: Bill, keep: int = 0, *, after_pending: bool = False) -> int:
        """Return the completion tokens of a call that fit into this account and those above it.

        Kept amounts and grants in completion tokens pay for one more call, whose input also
        contains the completion of this call.
        """
        cap, aside = MAX_TOKENS, 0
        for first, *_ in self._chains():
            free = first._free(after_pending=after_pending)
            if not first.rate.needs_input:
                cap = min(cap, max(0, free - keep))
            elif call.model or first.unit != "dollars":
                cap = min(cap, first.rate.tokens_for(free, call, keep, aside))
            aside, keep = max(keep, first._until_grant()[-1]._aside()), 0
        return cap

    def _is_busy(self) -> bool:
        """Return whether a call under way may return some of its reservation, here or above."""
        path = [account for chain in self._chains() for account in chain[0]._until_grant()]
        return any(account._rest() < account._rest(after_pending=True) for account in path)

    def _hold(self, call: Bill, sign: int = 1) -> None:
        """Add or remove the largest cost of a call as pending."""
        for account in self.line:
            account._pending += sign * account.rate.cost(call)

    def _count(
        self, bills: Sequence[Bill], *, is_unknown: bool = False, below: Budget | None = None
    ) -> None:
        """Count calls in this account and its parents, or in the accounts below `below`."""
        for account in self.line:
            if account is below:
                return
            units = sum(map(account.rate.cost, bills))
            account._spent += 0 if is_unknown else units
            account._unknown += units if is_unknown else 0
            account._bills += bills
            if len(account._bills) > 100:  # noqa: PLR2004
                account._bills = add_bills(account._bills)

    def _try_reserve(  # noqa: PLR0913 -- those of `reserve`
        self,
        tokens: int | None,
        call: Bill = _NO_CALL,
        also: Sequence[Budget] = (),
        *,
        keep: float = 0,
        at_least: int = 1,
        wait_for: int = 0,
    ) -> Reservation | Future[None]:
        """Reserve now, or return a future that is done when a call has returned tokens."""
        accounts, kept = (self, *also), self._units("keep", keep)
        if call.model == "" and any(account.needs_input for account in accounts):
            msg = "A budget that counts the input needs the model and the prompt of a call. "
            raise InputError(msg + "Give reserve(…, call=bound_input(model, messages)).")
        limit = MAX_TOKENS if tokens is None else whole_number("tokens", tokens, minimum=1)
        with _LOCK:
            cap = min(limit, self._cap(call, kept), *(account._cap(call) for account in also))
            is_short = cap < min(limit, wait_for)
            # No wait inside a reservation's block: the call might wait for itself.
            if is_short and not _OPEN.get() and any(account._is_busy() for account in accounts):
                future: Future[None] = Future()
                WAITING.add(future)
                return future
            if cap < max(1, at_least):
                raise _used_up(accounts, call, at_least)
            reservation = Reservation(cap, accounts, call)
            for account in accounts:
                account._hold(reservation.most)
            return reservation


class Reservation:
    """Tokens reserved for one call until the call is settled.

    Attributes:
        tokens: The call's cap in completion tokens.
        accounts: The accounts that the tokens were reserved in; all others are above these.
        call: The model and the bound of the input, where an account counts it.
        most: The most that the call can cost.
        bill: The counted bill of a settled call; its largest possible value if unknown.
    """

    def __init__(self, tokens: int, accounts: Sequence[Budget], call: Bill) -> None:
        self.tokens, self.accounts, self.call = tokens, tuple(accounts), call
        self.most = replace(call, output=tokens)
        self.bill: Bill | None = None

    def settle(self, cost: int | list[Bill]) -> None:
        """Charge the cost of the call once, and release the rest of the reservation.

        Args:
            cost: Completion tokens, reasoning included, to which the bound of the input is added; 0
                for a call that was refused. Or the bills of all calls that were made.
        """
        if not isinstance(cost, list):
            output = whole_number("cost", cost, minimum=0)
            cost = [replace(self.call, output=output) if output else Bill(self.call.model)]
        self._settle(cost)

    def forfeit(self) -> None:
        """Keep all tokens reserved for good, because the bill of the call is unknown."""
        self._settle([self.most], is_unknown=True)

    def _settle(self, bills: Sequence[Bill], *, is_unknown: bool = False) -> None:
        with _LOCK:
            if self.bill is not None:
                return
            self.bill = bills[0]
            for account in self.accounts:
                account._hold(self.most, -1)
                account._count(bills, is_unknown=is_unknown)
        _notify_waiters()

    def __enter__(self) -> Self:
        _OPEN.set(_OPEN.get() + 1)
        return self

    def __exit__(self, *_: object) -> None:
        _OPEN.set(max(0, _OPEN.get() - 1))
        self.forfeit()


def _used_up(accounts: Sequence[Budget], call: Bill, at_least: int) -> BudgetUsedUpError:
    """Return an error that names the highest used-up account, which is the user's."""
    least = replace(call, output=at_least)
    path = [above for account in accounts for above in reversed(account.line)]
    first = next((one for one in path if one._free() < one.rate.cost(least)), path[0])
    figures = (first._size(), first.rate.cost(call), first._unknown, max(0, first._free()))
    size, cost, lost, left = (first.rate.text(first._value(units)) for units in figures)
    lost = lost if first._unknown else ""
    return BudgetUsedUpError(size, cost=cost if figures[1] else "", left=left, lost=lost)


def _notify_waiters() -> None:
    """Wake callers that wait for tokens. Call this function without the lock."""
    with _LOCK:
        waiting = [*WAITING]
        WAITING.clear()
    for future in waiting:
        if future.set_running_or_notify_cancel():
            future.set_result(None)
