"""The shared budget that a call is made within: its cap is reserved before, and settled after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pb_graph.budget.account import areserve_in, reserve_in
from pb_graph.budget.context import accounts_in_scope
from pb_graph.budget.ledger import most_billed, spent
from pb_graph.errors import BudgetUsedUpError
from pb_graph.models.provider_errors import may_be_paid
from pb_graph.models.usage import reported, tokens_of

if TYPE_CHECKING:
    from pb_graph.budget.account import Reservation
    from pb_graph.models.attempts import Attempts
    from pb_graph.models.options import CallOptions
    from pb_graph.models.reply import Reply


class Attempt:
    """One attempt of a call, within the shared budget that there is around it, if there is one.

    It is a context manager: left in any other way, it keeps all that it reserved.
    """

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._accounts = accounts_in_scope()
        self._held: Reservation | None = None
        self._strict = False

    async def reserved(self, *, blocking: bool) -> CallOptions:
        """Begin it, within what is left.

        Raises:
            BudgetUsedUpError: Nothing is left; with what the attempts before it cost.
        """
        limits, accounts = self._attempts.next_limits(), self._accounts
        self._strict = limits.strict
        if not accounts:
            return limits
        try:
            self._held = (
                reserve_in(accounts, limits.cap, at_least=limits.cap)
                if blocking
                else await areserve_in(accounts, limits.cap, at_least=limits.cap)
            )
        except BudgetUsedUpError as error:
            error.lost = self._attempts.lost
            raise
        return self._attempts.lowered(self._held.tokens)

    def settled(self, reply: Reply) -> Reply:
        """Count what it cost, without the attempts before it; the most that may be, if strict."""
        if self._held:
            cost = (most_billed if self._strict else spent)([reply.charge])
            self._held.settle(cost)
        return reply

    def failed(self, error: Exception) -> None:
        """Count what it is known to have cost, although it failed."""
        if self._held and self._attempts.begun and reported(error) is None:
            self._held.forfeit()  # a stream that broke off: who says how much of it is paid for?
        elif self._held:
            settle_failed(self._held, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._held:
            self._held.forfeit()


def settle_failed(call: Reservation, error: Exception) -> None:
    """Count what a failed attempt is known to have cost.

    Nothing for one that was refused or never sent; all that was reserved where nobody can say.
    LangChain's errors about an answer's form carry the answer, which was paid for.
    """
    tokens, answer = reported(error), getattr(error, "ai_message", None)
    if tokens is None and answer is not None:
        tokens = tokens_of(answer, [])
    if tokens is None and not may_be_paid(error):
        call.settle(0)
    elif tokens and (tokens.measured or tokens.output):
        call.settle(tokens.output)
    else:
        call.forfeit()
