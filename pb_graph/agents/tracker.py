"""Count the model calls that a host's own middleware makes within a reserved call."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.tracers.context import register_configure_hook

from pb_graph.budget.account import Budget, Reservation, reserve_in
from pb_graph.errors import BudgetUsedUpError
from pb_graph.models.client import settle_failed
from pb_graph.models.usage import tokens_of

if TYPE_CHECKING:
    from uuid import UUID

    from langchain_core.outputs import LLMResult


class InnerCalls(BaseCallbackHandler):
    """Track all model calls in the block, so that the budget holds in any order of middleware.

    A middleware nearer to the model may ask the model again or ask another one. After a failure
    that is a new call: as much is reserved for it, or it is not made. Other calls are counted.

    Args:
        reservation: What was reserved for the call.
        keep: Tokens that calls after a failure leave untouched.
    """

    raise_error = True
    run_inline = True

    def __init__(self, reservation: Reservation, *, keep: int) -> None:
        self._reservation, self._keep = reservation, keep
        self._counted = 0
        self._failed = False
        self._runs: dict[UUID, bool] = {}  # calls under way, and whether a reply has begun

    def on_chat_model_start(
        self,
        *_: Any,  # noqa: ANN401 -- LangChain's
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **__: Any,  # noqa: ANN401
    ) -> None:
        """Reserve tokens for a call that follows a failed one."""
        if parent_run_id in self._runs:
            return  # a model within a model: the outer one reports the usage of both
        if self._failed:
            cap, accounts = self._reservation.tokens, self._reservation.accounts
            again = reserve_in(accounts, cap, keep=self._keep)
            if again.tokens < cap:  # the request's cap is already set
                again.settle(0)
                raise BudgetUsedUpError(accounts[0].total)
            self._reservation, self._failed = again, False
        self._runs[run_id] = False

    def on_llm_new_token(self, *_: Any, run_id: UUID, **__: Any) -> None:  # noqa: ANN401
        """Note that a reply has begun."""
        if run_id in self._runs:
            self._runs[run_id] = True

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # noqa: ANN401
        """Settle the failed call; a reply that broke off has an unknown bill."""
        if run_id in self._runs:
            self._failed = True
            if self._runs.pop(run_id) or not isinstance(error, Exception):
                self._reservation.forfeit()
            else:
                settle_failed(self._reservation, error)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:  # noqa: ANN401
        """Count the tokens of a call that succeeded."""
        if self._runs.pop(run_id, None) is not None:
            made = [getattr(one, "message", None) for many in response.generations for one in many]
            replies = [one for one in made if isinstance(one, AIMessage)]
            self._counted += sum(tokens_of(one, []).output for one in replies)

    def settle(self, tokens: int) -> None:
        """Settle a call that has an answer, which cost this many completion tokens itself."""
        self._reservation.settle(max(tokens, self._counted))

    def settle_failed(self, error: Exception) -> None:
        """Settle a call that has no answer. The calls that were counted are paid all the same."""
        if self._failed:  # its last attempt is settled
            for account in self._reservation.accounts:
                account.charge(self._counted)
        elif self._counted:
            self._reservation.settle(self._counted)
        else:
            settle_failed(self._reservation, error)

    def __enter__(self) -> Self:
        self._before = _TRACKER.get()
        _TRACKER.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _TRACKER.set(self._before)
        self._reservation.forfeit()


_TRACKER: ContextVar[InnerCalls | None] = ContextVar("pb_graph_inner_calls", default=None)
register_configure_hook(_TRACKER, inheritable=True)


def tracked_accounts() -> tuple[Budget, ...]:
    """Return the accounts of the reserved call that tracks all model calls made here, if any."""
    tracker = _TRACKER.get()
    return tracker._reservation.accounts if tracker else ()  # noqa: SLF001 -- of this module
