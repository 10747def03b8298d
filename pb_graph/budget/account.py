"""Reserve and settle tokens or dollars, in accounts that agents and graphs find around them.

A call reserves its cap before it is sent: in its account and in every account above it, so that
calls at the same time, in threads and in tasks, never spend more than the total of any of them.
"""
# ruff: noqa: SLF001 -- the accounts of a tree are one thing to the lock

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

from pb_graph.budget.bill import (
    ALL_TOKENS,
    COMPLETION_TOKENS,
    MAX_TOKENS,
    Bill,
    Dollars,
    Prices,
    Rate,
    Reservation,
    bills_of,
    spending_of,
)
from pb_graph.errors import BudgetUsedUpError, InputError
from pb_graph.types import Spending

_LOCK = threading.Lock()  # one for all accounts, as a reservation changes several
WAITING: set[Future[None]] = set()  # callers that wait for tokens
# The accounts around a caller: at most one of each tree, the innermost first.
ACCOUNTS: ContextVar[tuple[Budget, ...]] = ContextVar("pb_graph_budget", default=())
_NO_CALL = Bill()
_MAX_RUNS, _MAX_BILLS = 10_000, 100  # that an account remembers one by one


class Budget(AbstractContextManager["Budget"]):
    """An account of tokens or dollars that agents, graphs and threads share.

    A budget of all tokens or of dollars bounds the input of a call before it is made. A call whose
    cost is unknown keeps its cap reserved, so only a server that ignores its cap can spend more
    than was reserved. A budget belongs to its process: a deep copy is the same account.

    Args:
        total: Completion tokens, at least 1. Give one of the three totals.
        total_tokens: Input and completion tokens, at least 1.
        usd: Dollars, more than 0.
        prices: Dollars per million tokens by model, of input, output and cached input:
            ``{"gpt-5-mini": (0.25, 2.0, 0.025)}``. ``"auto"`` for the list of `genai-prices`.
        bound: The most input of a call: ``"learned"`` from settled calls of the same model and
            server, or ``"bytes"``, a token for each byte, which rests on no estimate.

    Attributes:
        unit: The unit of all figures: completion tokens, tokens or dollars.

    Raises:
        InputError: If not one total is given; here and in the methods, if a figure is no amount.
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
            msg = f"total must be a whole number of tokens, not {figure}. For dollars write "
            raise InputError(msg + f"Budget(usd={figure}).")
        rate = {"total": COMPLETION_TOKENS, "total_tokens": ALL_TOKENS}.get(name) or Dollars(prices)
        self._open(rate, _units(rate, name, figure, 1))
        self.is_learned = bound == "learned"

    def _open(self, rate: Rate, size: int | None, parent: Budget | None = None) -> Self:
        self.rate, self.unit, self.parent = rate, rate.unit, parent
        same = parent if parent and parent.rate is rate else None
        self.line: list[Budget] = [self, *parent.line] if parent else [self]  # up to the root
        self._chain: list[Budget] = [self, *same._chain] if same else [self]  # of its unit
        # The first account of each unit, of which a line has at most two.
        self._firsts: list[Budget] = [self, *same._firsts[1:]] if same else [self, *self.line[1:2]]
        self.is_learned = not parent or parent.is_learned
        self.needs_input: bool = rate.needs_input or bool(parent and parent.needs_input)
        self._own = size  # None: the size of the parent
        self._spent = self._unknown = self._pending = self._kept = 0
        self._bills: list[Bill] = []
        self._grants: set[Budget] = set()  # open grants of this account and its limits
        self._is_grant = False
        self.runs: dict[str, None] = {}  # that it knows, in the order of their charges
        return self

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
    def kept(self) -> float:
        """Tokens or dollars that are kept for a last answer, if so many are left."""
        return self._value(self._kept)

    @property
    def left_with_kept(self) -> float:
        """Tokens or dollars that a call can reserve now that may spend what is kept here."""
        with _LOCK:
            return self._value(max(0, self._free(from_kept=True)))

    @property
    def spending(self) -> Spending:
        """Spent tokens by model, whatever the budget's unit. An unknown bill counts in full."""
        with _LOCK:
            return spending_of(self._bills)

    def reserve(  # noqa: PLR0913 -- all but the first by name
        self,
        tokens: int | None = None,
        *,
        keep: float = 0,
        at_least: int = 1,
        wait_for: int = 0,
        call: Bill = _NO_CALL,
        also: Sequence[Budget] = (),
        from_kept: bool = False,
    ) -> Reservation:
        """Reserve tokens for a call.

        Args:
            tokens: Completion tokens that the call may cost. `None` for all that is left.
            keep: Amount in the budget's unit for one more call, whose prompt also has this reply.
            at_least: Fewest completion tokens that are worth the call.
            wait_for: Completion tokens worth waiting for, while calls under way may return some.
                Only `areserve` waits in an event loop, and neither in a reservation's block.
            call: The model and the bound of the input, from `bound_input`, where the input counts.
            also: Accounts of other trees, which the same tokens are reserved in.
            from_kept: Whether the call may spend what `keep` has set aside in this account.

        Returns:
            At least `at_least` and at most `tokens`. As a context manager, the reservation is
            forfeited if the block is left before it was settled.

        Raises:
            BudgetUsedUpError: If less than `at_least` is left, or the input alone does not fit.
            InputError: If a budget counts the input, and `call` is missing.
        """
        parts = tokens, call, also, keep, at_least
        while isinstance(made := self._try_reserve(*parts, wait_for, from_kept), Future):
            with suppress(RuntimeError):
                asyncio.get_running_loop()
                wait_for = 0  # a wait would block all tasks
                continue
            made.result()
        return made

    async def areserve(self, tokens: int | None = None, **parts: Any) -> Reservation:  # noqa: ANN401
        """Reserve tokens as `reserve` does, without blocking the event loop."""
        while isinstance(outcome := self._try_reserve(tokens, **parts), Future):
            await asyncio.wrap_future(outcome)
        return outcome

    def charge(self, tokens: int | Spending, *, run: str | None = None) -> None:
        """Charge tokens without a reservation, such as earlier spending of another process.

        Args:
            tokens: Completion tokens, or the `spending` of another budget. An account that counts
                input, or has such a parent, accepts only a `Spending`.
            run: The run that spent them. An account that knows the run does not count them again.
        """
        if isinstance(tokens, dict):
            bills = bills_of(tokens) if tokens else []
        else:
            bills = [Bill(output=_units(COMPLETION_TOKENS, "tokens", tokens, 0))]
            if self.needs_input:
                msg = f"{tokens} tokens cannot be charged to a budget that counts the input. "
                raise InputError(msg + "Give the `spending` of the other budget.")
        with _LOCK:
            for account in [above for above in self.line if run not in above.runs]:
                account._add(bills)
                if run is not None:
                    account.runs[run] = None
                    if len(account.runs) > _MAX_RUNS:
                        del account.runs[next(iter(account.runs))]

    def limit(self, amount: float | None = None, *, tokens: int | None = None) -> Budget:
        """Open an account for one run below this account. No tokens are set aside.

        Args:
            amount: Figure in the unit of this budget. `None` for its size, also if that is raised.
            tokens: Completion tokens, whatever the unit of this budget, instead of `amount`.
        """
        rate = self.rate if tokens is None else COMPLETION_TOKENS
        name, figure = ("amount", amount) if tokens is None else ("tokens", tokens)
        size = None if figure is None else _units(rate, name, figure, 0)
        if size and rate.unit == "dollars" and size > self._size():
            msg = f"{amount} dollars are more than this budget of {rate.text(self.total)} "
            raise InputError(msg + "has. Its parts are given in dollars, not in tokens.")
        return object.__new__(Budget)._open(rate, size, self)

    def grant(self, amount: float) -> Budget:
        """Set an amount, or what is left, aside as an account. Closing that returns the rest."""
        grant = self.limit(amount)
        with _LOCK:
            grant._own, grant._is_grant = min(grant._size(), max(0, self._free())), True
            for account in self._chain:
                account._grants.add(grant)
                if account._is_grant:  # which is set aside above it
                    break
        return grant

    def amount(self, call: Bill) -> float:
        """Return the cost of a call in the unit of this budget."""
        return self._value(self.rate.cost(call))

    def keep(self, amount: float) -> None:
        """Keep an amount, in place of an earlier one, which only ``from_kept=True`` may spend."""
        with _LOCK:
            self._kept = self.rate.units("amount", amount, minimum=0)
        _wake_waiting()

    def close(self) -> None:
        """Close a grant, and return what is kept or set aside here; calls in flight settle."""
        with _LOCK:
            self._kept = 0
            for grant in (*self._grants, self):
                if grant._is_grant and grant.parent:
                    for account in grant.parent._chain:
                        account._grants.discard(grant)
                    grant._is_grant, grant._kept = False, 0
                    grant._own = grant._spent + grant._unknown + grant._pending
        _wake_waiting()

    def raise_to(self, total: float) -> None:
        """Raise the total, in the unit of this budget, and those of parents with too little left.

        Waiting callers continue, and child accounts as large as this one grow. No total falls.
        """
        with _LOCK:
            more = self.rate.units("total", total, minimum=1) - self._size()
            if more < 0:
                msg = f"total must not fall below {self.rate.text(self.total)}, but is {total}"
                raise InputError(msg)
            target = self._free(settled=True, from_kept=True) + more
            for account in self._chain:
                short = more if account is self else target - account._rest(settled=True)
                if account._own is not None:
                    account._own += max(0, short)
                if account._is_grant:  # its size is already set aside in its parent
                    target = 0
        _wake_waiting()

    def tokens_left(self, model: str = "") -> int:
        """Return the completion tokens left if pending calls cost nothing; dollars need a model."""
        with _LOCK:
            return self._cap(Bill(model) if model else _NO_CALL, 0, settled=True)

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, _: object) -> Self:
        return self  # two accounts would spend twice as much

    def __reduce__(self) -> str:
        msg = "A Budget cannot be pickled: it belongs to its process. Open a new Budget there."
        raise TypeError(msg)

    def _value(self, units: int) -> float:
        return units if self.rate.scale == 1 else units / self.rate.scale

    # The lock is held from here to `_add`. `settled` assumes that pending calls cost nothing.

    def _size(self) -> int:
        if self._own is None:
            return self.parent._size() if self.parent else 0
        return self._own

    def _unspent(self, *, settled: bool) -> int:
        return self._size() - self._spent - self._unknown - (0 if settled else self._pending)

    def _rest(self, *, settled: bool = False, from_kept: bool = False) -> int:
        """Return the amount that a call can reserve in this account alone, beside its grants."""
        rest = self._unspent(settled=settled)
        for grant in self._grants:
            rest -= max(0, grant._unspent(settled=settled))
        return rest - min(self._kept, max(0, rest)) if self._kept and not from_kept else rest

    def _free(self, *, settled: bool = False, from_kept: bool = False) -> int:
        """Return the amount that a call can reserve here and in the parents of the same unit."""
        free, is_set_aside = self._rest(settled=settled, from_kept=from_kept), self._is_grant
        for account in self._chain[1:]:
            rest = account._rest(settled=settled)
            # Parents have what they set aside, unless a server ignored a cap and spent it.
            free = free + min(0, rest) if is_set_aside else min(free, rest)
            is_set_aside = is_set_aside or account._is_grant
        return free

    def _cap(self, call: Bill, keep: int, *, settled: bool = False, from_kept: bool = False) -> int:
        """Return the completion tokens of a call that fit, beside `keep` units for another call."""
        cap, kept_tokens = MAX_TOKENS, 0
        for first in self._firsts:
            units = first._free(settled=settled, from_kept=from_kept and first is self)
            if not first.rate.needs_input:
                cap = min(cap, max(0, units - keep - call.output))
            elif call.model or first.unit != "dollars":
                cost, base = first.rate.cost, first.rate.cost(call)
                each = cost(replace(call, output=call.output + 1)) - base
                if keep or kept_tokens:  # for a call whose input also has this one's completion
                    units -= keep + base + kept_tokens * each
                    longer = replace(call, input=call.input + 1, written=call.written + 1)
                    each += cost(longer) - base
                fits = (units - base) // each if each else MAX_TOKENS
                cap = min(cap, fits if base <= units else 0)
            keep, kept_tokens = 0, keep
        return cap

    def _add(self, bills: Sequence[Bill], *, is_unknown: bool = False) -> None:
        """Count calls in this account alone."""
        units = sum(map(self.rate.cost, bills))
        self._spent += 0 if is_unknown else units
        self._unknown += units if is_unknown else 0
        self._bills += bills
        if len(self._bills) > _MAX_BILLS:
            self._bills = bills_of(spending_of(self._bills))

    def _try_reserve(  # noqa: PLR0913, PLR0917 -- those of `reserve`
        self,
        tokens: int | None,
        call: Bill = _NO_CALL,
        also: Sequence[Budget] = (),
        keep: float = 0,
        at_least: int = 1,
        wait_for: int = 0,
        from_kept: bool = False,
    ) -> Reservation | Future[None]:
        """Reserve now, or return a future that is done when a call has returned tokens."""
        kept = self.rate.units("keep", keep, minimum=0) if keep else 0
        accounts = (self, *also)
        if call.model == "" and any(account.needs_input for account in accounts):
            msg = "A budget that counts the input needs the model and the prompt of a call. "
            raise InputError(msg + "Give reserve(…, call=bound_input(model, messages)).")
        most = MAX_TOKENS if tokens is None else _units(COMPLETION_TOKENS, "tokens", tokens, 1)
        with _LOCK:

            def fits(*, settled: bool) -> int:
                own = self._cap(call, kept, settled=settled, from_kept=from_kept)
                return min(most, own, *[other._cap(call, 0, settled=settled) for other in also])

            cap = fits(settled=False)
            # No wait inside a reservation's block: the call might wait for itself.
            may_wait = cap < wait_for and not Reservation.OPEN.get()
            if may_wait and cap < fits(settled=True):
                future: Future[None] = Future()
                WAITING.add(future)
                return future
            if cap < max(1, at_least):
                raise _used_up(accounts, call, at_least)
            path = [above for account in accounts for above in account.line]
            made = Reservation(cap, call, partial(_settle, path))
            for account in path:
                account._pending += account.rate.cost(made.most)
            return made


@contextmanager
def use_budget(budget: Budget | None) -> Iterator[None]:
    """Charge all calls inside the context to an account, and to enclosing accounts of other trees.

    It replaces the enclosing account of its tree, unless that is its part. `None` changes nothing.
    """
    token = ACCOUNTS.set(accounts_in_scope(budget))
    try:
        yield
    finally:
        ACCOUNTS.reset(token)


def accounts_in_scope(own: Budget | None) -> tuple[Budget, ...]:
    """Return the accounts that a call reserves in, the innermost first, at most one of each tree.

    A caller that runs within its `own` account uses its part of that account. Another account of
    the same tree around the caller, such as a grant, is not spent.
    """
    enclosing = ACCOUNTS.get()
    if own is None or not enclosing:
        return (own,) if own else enclosing
    part = next((account for account in enclosing if own in account.line), own)
    return (part, *(account for account in enclosing if account.line[-1] is not own.line[-1]))


def available_tokens(tokens: int, model: str = "") -> int:
    """Return how many of `tokens` a call in this context can reserve if pending calls cost nothing.

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
        earlier: Spending before a pause, also for the accounts around that do not know the run.

    Returns:
        An account in completion tokens, as large as the smallest of `own`, `limit` and the budget
        around the run; without a number in the unit of that budget; `None` without either.
    """
    enclosing = accounts_in_scope(own if isinstance(own, Budget) else None)
    totals = [total for total in (own, limit) if isinstance(total, int)]
    if not (enclosing or totals):
        return None
    if not enclosing:
        account = Budget(max(1, min(totals)))
    else:
        if totals and enclosing[0].unit == "completion tokens":
            totals.append(int(enclosing[0].total))
        account = enclosing[0].limit(tokens=min(totals, default=None))
    for one in (account, *enclosing[1:]):
        one.charge(earlier or {}, run=run)
    return account


def _units(rate: Rate, name: str, figure: object, minimum: int) -> int:
    is_plain = type(figure) is int and figure >= minimum and rate.scale == 1
    return figure if is_plain else rate.units(name, figure, minimum=minimum)  # type: ignore[return-value]


def _settle(path: list[Budget], made: Reservation, bills: list[Bill], *, is_unknown: bool) -> None:
    """Release a reservation in its accounts once, and count the bills of its call there."""
    with _LOCK:
        if made.bill is None:
            made.bill = bills[0]
            for account in path:
                account._pending -= account.rate.cost(made.most)
                account._add(bills, is_unknown=is_unknown)
    _wake_waiting()


def _used_up(accounts: Sequence[Budget], call: Bill, at_least: int) -> BudgetUsedUpError:
    """Return an error that names the highest used-up account, which is the user's."""
    least = replace(call, output=at_least)
    path = [above for account in accounts for above in reversed(account.line)]
    first = next((one for one in path if one._free() < one.rate.cost(least)), path[0])
    figures = (first._size(), first.rate.cost(call), first._unknown, max(0, first._free()))
    size, cost, lost, left = (first.rate.text(first._value(units)) for units in figures)
    lost = lost if first._unknown else ""
    return BudgetUsedUpError(size, cost=cost if figures[1] else "", left=left, lost=lost)


def _wake_waiting() -> None:
    """Let the callers that wait for tokens try again, after a change."""
    with _LOCK:
        waiting = [*WAITING]
        WAITING.clear()
    for future in waiting:
        if future.set_running_or_notify_cancel():
            future.set_result(None)
