"""One account for many callers: a call reserves its cap first, and settles what it cost after.

What is reserved is nobody else's, so that calls at the same time, in threads and in tasks, never
spend more than the total together. An account may be drawn on through others: a *limit* draws on
the accounts above it with each call; a *grant* is set aside at once, and what it leaves returns.
"""
# ruff: noqa: SLF001 -- the accounts of a tree are one thing to the lock, and know each other

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Self
from uuid import uuid4
from weakref import WeakValueDictionary

from pb_graph.budget.checks import whole_number
from pb_graph.budget.snapshots import process, raise_to, tick
from pb_graph.errors import BudgetUsedUpError

# One lock for all accounts, held for some microseconds: a call concerns several of them.
LOCK = threading.Lock()
_WAITING: set[Future[None]] = set()

# Calls that this thread or task is in the middle of.
_MAKING: ContextVar[tuple[Call, ...]] = ContextVar("pb_graph_calls", default=())


class Call:
    """Tokens reserved for one call, until it is settled.

    Attributes:
        tokens: The call's cap.
        account: What they were reserved from.
    """

    def __init__(self, account: Budget, tokens: int, lines: list[Budget]) -> None:
        self.tokens = tokens
        self.account, self._lines = account, lines
        self._settled = False

    def settle(self, tokens: int) -> None:
        """Count what the call cost, and give back the rest; a second time, nothing happens.

        Args:
            tokens: Completion tokens, reasoning included; 0 when it was refused, and costs nothing.
        """
        self._close("_spent", whole_number("tokens", tokens, least=0))

    def keep(self) -> None:
        """The call may have been paid for, and nobody can say how much: keep all of it reserved."""
        self._close("_unknown", self.tokens)

    def _close(self, column: str, tokens: int) -> None:
        with LOCK:
            if self._settled:
                return
            self._settled = True
            for account in self._lines:
                account._in_flight -= self.tokens
            self.account._count(column, tokens)
            self.account._drop()
        wake()

    def __enter__(self) -> Self:
        _MAKING.set((*_MAKING.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _MAKING.set(tuple(call for call in _MAKING.get() if call is not self))
        self.keep()


def is_making_a_call() -> bool:
    """Whether this thread or task is in the middle of a call of its own."""
    return bool(_MAKING.get())


def new_turn() -> Future[None]:
    """What is done as soon as a call gives something back; called with the lock held."""
    turn: Future[None] = Future()
    _WAITING.add(turn)
    return turn


def wake() -> None:
    """Let all that wait look again."""
    with LOCK:
        waiting = [*_WAITING]
        _WAITING.clear()
    for turn in waiting:
        if turn.set_running_or_notify_cancel():
            turn.set_result(None)


def in_loop() -> bool:
    """Whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# Accounts of this process by id, and the last ones for a while after nobody holds them any more:
# a run that is resumed, or branches off, finds the account as it is, not as it once was.
_LIVE: WeakValueDictionary[str, Budget] = WeakValueDictionary()
_RECENT: deque[Budget] = deque(maxlen=1024)


class Budget:
    """Completion tokens that any number of agents, graphs and threads spend together.

    A call that got no usable account of its cost keeps its cap reserved for good (``unknown``): a
    budget rather ends early than be overspent. Only a server that takes no notice of a cap can
    spend more than was reserved; that is counted, too, and then nothing is left.

    Args:
        total: Tokens; at least 1.

    Raises:
        ValueError: The total is no whole number, or below 1.
    """

    def __init__(self, total: int) -> None:
        self._open_account(whole_number("total", total, least=1), uuid4().hex)

    def _open_account(
        self, total: int, name: str, above: Iterable[Budget] = (), ceiling: float | None = None
    ) -> None:
        self.total, self.id = total, name
        self._ceiling = math.inf if ceiling is None else ceiling  # what somebody said, if anybody
        self._above = tuple(above)
        self._funder: Budget | None = None
        self._closed = self._lasting = False
        self._in_flight = 0
        self._grants: dict[str, Budget] = {}
        self._parted: set[str] = set()
        self._version = 0
        # By whom: process and account, so that copies of an account can be put together again.
        self._spent: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        _LIVE[name] = self
        _RECENT.append(self)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self  # two accounts would spend twice as much

    def __reduce__(self) -> str:
        msg = "a Budget belongs to its process: send its snapshot(), and Budget.restore it there"
        raise TypeError(msg)

    def __repr__(self) -> str:
        return f"<Budget: {self.spent} of {self.total} tokens spent, {self.left} left>"

    @property
    def spent(self) -> int:
        """Tokens of all calls that are settled."""
        with LOCK:
            return sum(self._spent.values())

    @property
    def unknown(self) -> int:
        """Caps of calls that may have been paid for, nobody knows how much; never given back."""
        with LOCK:
            return sum(self._unknown.values())

    @property
    def left(self) -> int:
        """Tokens that a call can reserve now."""
        with LOCK:
            return self._free()

    @property
    def left_soon(self) -> int:
        """The same once the calls under way have settled, if these cost nothing."""
        with LOCK:
            return self._free(settled=True)

    @property
    def left_at_most(self) -> int:
        """Tokens that calls can ever reserve: also what others hold now, and may give back."""
        with LOCK:
            lines = self._lines(funders=True)
            free = (one.total - one._spent.total() - one._unknown.total() for one in lines)
            return max(0, min(free))

    def reserve(self, tokens: int | None = None, *, keep: int = 0, at_least: int = 0) -> Call:
        """Set tokens aside for a call that is about to be made.

        In a thread that runs an event loop it does not wait; use `areserve` there.

        Args:
            tokens: Most that the call may cost; None for all that is left.
            keep: Tokens to leave untouched.
            at_least: Tokens that are worth waiting for, as long as other calls under way may give
                some back. Within a call (``with budget.reserve(…):``) nobody waits.

        Returns:
            The call, with at least one token and at most ``tokens``. Used as a context manager, it
            keeps what it reserved if it is left without having been settled.

        Raises:
            BudgetUsedUpError: Nothing is left.
            ValueError: A figure is no whole number, or negative.
        """
        while isinstance(taken := self._take(tokens, keep, at_least, waits=not in_loop()), Future):
            taken.result()
        return taken

    async def areserve(
        self, tokens: int | None = None, *, keep: int = 0, at_least: int = 0
    ) -> Call:
        """`reserve` for an event loop, which goes on with other tasks meanwhile."""
        while isinstance(taken := self._take(tokens, keep, at_least, waits=True), Future):
            await asyncio.wrap_future(taken)
        return taken

    def charge(self, tokens: int) -> None:
        """Count tokens for which nothing was reserved."""
        spent = whole_number("tokens", tokens, least=0)
        with LOCK:
            self._count("_spent", spent)

    def grant(self, tokens: int, name: str | None = None) -> Budget:
        """Set tokens aside as a budget of their own; what it leaves returns when it is closed.

        Args:
            tokens: Most that it gets; less where less is left.
            name: Under which it is found again, with all that it has spent: a grant that is asked
                for once more, also after `restore`, is the same one and does not shrink.

        Returns:
            The grant, which is closed by ``with`` or `close`.
        """
        wanted = whole_number("tokens", tokens, least=0)
        with LOCK:
            total, lasting = min(wanted, self._free()), name is not None
            name = name or uuid4().hex
            found = self._grants.get(self._id_of(name))
            return found or self._new_grant(total, name, lasting=lasting)

    def part(self, name: str, names: Sequence[str], *, keep: int) -> Budget:
        """The grant of one of several that share what is left, ``keep`` aside, in equal parts.

        Those of ``names`` that had theirs already are not counted again. It is no part of a
        `snapshot`: what it has spent is.
        """
        with LOCK:
            found = self._grants.get(self._id_of(name))
            if found is None:
                to_come = len([other for other in {*names} - {name} if other not in self._parted])
                self._parted.add(name)
                total = max(0, self._free() - keep) // (to_come + 1)
                found = self._new_grant(total, name, lasting=False)
            return found

    def is_part_of(self, other: Budget) -> bool:
        """Whether what is spent here is spent there, too."""
        with LOCK:
            return other in self._lines(funders=True)

    def is_beside(self, other: Budget) -> bool:
        """Whether this was set aside of all that the other has, so that it need not draw on it.

        Not where somebody gave a smaller number on the way: nobody within that passes it.
        """
        with LOCK:
            mine, others = self._sources(), other._sources()
            shared = [one for one, least in others.items() if one in mine and least >= one.total]
            ends = {one for one in others if not (one._above or one._funder)}
            return self._funder is not None and ends <= {*shared}

    def limit(self, tokens: int) -> Budget:
        """A budget that draws on this one call by call: nothing is set aside for it."""
        most = whole_number("tokens", tokens, least=0)
        return limited(most, (self,), most)

    def close(self) -> None:
        """Give back what is left of a grant; calls that are under way still settle.

        A limit gives back what grants of it had set aside. Budgets other than grants can be drawn
        on again.
        """
        with LOCK:
            if not self._closed:
                self._end()
        wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def snapshot(self) -> dict[str, Any]:
        """The account as plain JSON, for `restore`; without the calls that are under way."""
        with LOCK:
            return plain(self)

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any], above: Iterable[Budget] = ()) -> Budget:
        """The account of a snapshot: the live one where this process has it, which knows more.

        Args:
            snapshot: What `snapshot` gave, here or in another process.
            above: The accounts that it draws on, when it has to be made anew.
        """
        with LOCK:
            found = _LIVE.get(snapshot["id"])
            if found is None:
                found = cls.__new__(cls)
                ceiling = snapshot.get("ceiling")  # earlier versions' have none
                found._open_account(snapshot["total"], snapshot["id"], above, ceiling)
            merge(found, snapshot)
            return found

    @staticmethod
    def is_known(snapshot: Mapping[str, Any]) -> bool:
        """Whether a snapshot tells this process nothing: it wrote it, and has the account still."""
        return snapshot["by"] == process() and snapshot["id"] in _LIVE

    def adopt(self, snapshot: Mapping[str, Any]) -> None:
        """Count what a snapshot of this account, or of one that drew on it, knows beyond it."""
        with LOCK:
            merge(self, snapshot)

    # All below is called with the lock held.

    def _end(self) -> None:
        if self._above:  # what was set aside of it was so in those above, too
            for grant in [grant for grant in self._grants.values() if grant._funder is self]:
                grant._lasting = False
                grant._end()
        if self._funder and not self._closed:  # a limit ends its grants, also those that have ended
            self._closed = True
            for account in self._funder._lines():
                account._unknown.update(self._unknown)
        if not self._lasting:
            self._fold()
        self._drop()

    def _free(self, *, settled: bool = False) -> int:
        held = sum(grant._held() for grant in self._grants.values())
        held += 0 if settled else self._in_flight
        used = sum(self._spent.values()) + sum(self._unknown.values())
        free = [0 if self._closed else self.total - used - held]
        if self._funder:  # may have learned of more, from another process, than it had set aside
            free.append(self._funder._unspent())
        return max(0, min([*free, *(account._free(settled=settled) for account in self._above)]))

    def _unspent(self) -> int:
        """What all calls to come can cost, whatever is set aside for whom."""
        own = 0 if self._closed else self.total - sum(self._spent.values()) - self._at_stake()
        over = (*self._above, self._funder) if self._funder else self._above
        return min([own, *(account._unspent() for account in over)])

    def _at_stake(self) -> int:
        """What calls may have cost that are not settled, with those of its grants."""
        lost = 0 if self._closed else sum(self._unknown.values())  # closed, its funder has them
        return self._in_flight + lost + sum(one._at_stake() for one in self._grants.values())

    def _held(self) -> int:
        """What a grant keeps from its funder's other callers."""
        return self._at_stake() if self._closed else max(0, self.total - sum(self._spent.values()))

    def _sources(self) -> dict[Budget, float]:
        """Itself and where its tokens come from, with the least number given on the way there."""
        found: dict[Budget, float] = {self: math.inf}
        for over in (self._funder,) if self._funder else self._above:
            for one, least in over._sources().items():
                found[one] = min(least, found.get(one, math.inf), self._ceiling)
        return found

    def _lines(self, *, funders: bool = False) -> list[Budget]:
        """The accounts that a call concerns; those that funded them, only if asked or closed."""
        found: dict[str, Budget] = {}
        todo = [self]
        while todo:
            account = todo.pop()
            if account.id not in found:
                found[account.id] = account
                todo += account._above
                if account._funder and (funders or account._closed):
                    todo.append(account._funder)
        return list(found.values())

    def _count(self, column: str, tokens: int) -> None:
        if not tokens:
            return
        for account in self._lines(funders=column == "_spent"):
            getattr(account, column)[self._who] += tokens
            account._version = tick()

    @property
    def _who(self) -> str:
        return f"{process()}:{self.id}"

    def _new_grant(self, total: int, name: str, *, lasting: bool) -> Budget:
        made = Budget.__new__(Budget)
        made._open_account(total, self._id_of(name))
        made._lasting, made._funder = lasting, self
        for account in self._lines():
            account._grants[made.id] = made
            account._version = tick()
        return made

    def _id_of(self, name: str) -> str:
        return f"{self.id}/{name}"

    def _fold(self) -> None:
        """What is over need not be told apart any more."""
        for account in self._lines(funders=True)[1:]:
            for column in ("_spent", "_unknown"):
                entries: Counter[str] = getattr(account, column)
                for who in [who for who in getattr(self, column) if who in entries]:
                    if who.startswith(process()):
                        entries[account._who] += entries.pop(who)
            account._version = tick()

    def _drop(self) -> None:
        for grant in self._lines(funders=True):  # one that is closed may have waited for this one
            if grant._funder and grant._closed and not grant._lasting and not grant._at_stake():
                for account in grant._funder._lines():
                    account._grants.pop(grant.id, None)

    def _take(
        self, tokens: int | None, keep: int, at_least: int, *, waits: bool
    ) -> Call | Future[None]:
        tokens = None if tokens is None else whole_number("tokens", tokens, least=1)
        keep = whole_number("keep", keep, least=0)
        waits = waits and not is_making_a_call()  # it might wait for itself
        with LOCK:
            free = self._free() - keep
            cap = free if tokens is None else min(tokens, free)
            lines = self._lines()
            enough = at_least if tokens is None else min(tokens, at_least)
            if free < enough and waits and any(account._in_flight for account in lines):
                return new_turn()
            if cap < 1:  # of several that it draws on, the highest is the one that users know
                used_up = next(one for one in reversed(lines) if one._free() <= keep)
                raise BudgetUsedUpError(used_up.total)
            for account in lines:
                account._in_flight += cap
            return Call(self, cap, lines)


def limited(tokens: int, above: Iterable[Budget], given: int | None = None) -> Budget:
    """An account that draws on others, on no more than ``tokens`` of each.

    What was ``given`` as a number holds for all that is run within, whoever pays.
    """
    made = Budget.__new__(Budget)
    made._open_account(max(0, tokens), uuid4().hex, above, given)
    return made


def plain(account: Budget) -> dict[str, Any]:
    """All that `merge` needs; called with the lock held."""
    lasting = {
        grant.id.removeprefix(f"{account.id}/"): plain(grant)
        for grant in account._grants.values()
        if grant._lasting and grant._funder is account
    }
    return {
        "id": account.id,
        "total": account.total,
        "closed": account._closed,
        "by": process(),
        "version": account._version,
        "ceiling": None if math.isinf(account._ceiling) else account._ceiling,
        "spent": dict(account._spent),
        "unknown": dict(account._unknown),
        "grants": lasting,
        "above": [plain(above) for above in account._above],
    }


def merge(account: Budget, snapshot: Mapping[str, Any]) -> None:
    """Count what a snapshot knows beyond the account; called with the lock held.

    It never lowers anything, and never touches the total.
    """
    own = snapshot["id"] == account.id and snapshot["by"] == process()
    if own and snapshot["version"] <= account._version:
        return  # how this account once was
    for line in account._lines(funders=True):
        raise_to(line._spent, snapshot["spent"])
        line._version = tick()
    for line in account._lines():
        raise_to(line._unknown, snapshot["unknown"])
    for name, known in snapshot["grants"].items():
        grant = account._grants.get(account._id_of(name))
        grant = grant or account._new_grant(known["total"], name, lasting=True)
        grant._closed = grant._closed or known["closed"]
        merge(grant, known)
    for above, known in zip(account._above, snapshot["above"], strict=False):
        merge(above, known)
