"""Model calls that a host's own middleware makes within one that was reserved for."""

from __future__ import annotations

from collections import Counter
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.tracers.context import register_configure_hook

from pb_graph.errors import BudgetUsedUpError
from pb_graph.models.charging import settle_failed
from pb_graph.models.usage import tokens_of

if TYPE_CHECKING:
    from uuid import UUID

    from langchain_core.outputs import LLMResult

    from pb_graph.budget.shared import Budget, Call


class InnerCalls(BaseCallbackHandler):
    """Hears every model call within one of ours, as a context manager.

    What stands nearer to the model than the budget may ask it again, or ask another. After a
    failure that is a new call, for which as much is reserved, or it is not made; one beside the
    answer (a choice of tools, for one) is counted.
    """

    raise_error = True
    run_inline = True

    def __init__(self, call: Call, *, keep: int) -> None:
        self._call, self._keep = call, keep
        self._heard = 0
        self._failed = False
        self._runs: set[UUID] = set()
        self._pieces: Counter[UUID] = Counter()

    def on_chat_model_start(
        self,
        *_: Any,  # noqa: ANN401 -- LangChain's
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **__: Any,  # noqa: ANN401
    ) -> None:
        """Reserve for it, if it is another attempt."""
        if parent_run_id in self._runs:
            return  # a model within a model, of which the outer one tells the usage
        if self._failed:
            account = self._call.account
            again = account.reserve(self._call.tokens, keep=self._keep)
            if again.tokens < self._call.tokens:  # its cap stands in the request
                again.settle(0)
                raise BudgetUsedUpError(account.total)
            self._call, self._failed = again, False
        self._runs.add(run_id)

    def on_llm_new_token(self, token: object, *, run_id: UUID, **_: Any) -> None:  # noqa: ANN401
        """Note that a reply is on its way; a first piece without text only says whose it is."""
        self._pieces[run_id] += 1 + bool(token)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # noqa: ANN401
        """Count what the failed attempt may have cost."""
        if run_id in self._runs:
            self._runs.discard(run_id)
            self._failed = True
            if self._pieces[run_id] > 1:
                self._call.keep()  # who says how much of it is paid for?
            elif isinstance(error, Exception):
                settle_failed(self._call, error)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:  # noqa: ANN401
        """Count it."""
        if run_id in self._runs:
            self._runs.discard(run_id)
            made = [getattr(one, "message", None) for many in response.generations for one in many]
            said = [one for one in made if isinstance(one, AIMessage)]
            self._heard += sum(tokens_of(one, []).output for one in said)

    def settle(self, tokens: int) -> None:
        """There is an answer; what was heard of it may be more than it says itself."""
        self._call.settle(max(tokens, self._heard))

    def settle_failed(self, error: Exception) -> None:
        """There is none; what was heard is paid all the same."""
        if self._failed:  # the attempt is settled
            self._call.account.charge(self._heard)
        elif self._heard:
            self._call.settle(self._heard)
        else:
            settle_failed(self._call, error)

    def __enter__(self) -> Self:
        self._before = _HEARING.get()
        _HEARING.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _HEARING.set(self._before)
        self._call.keep()


_HEARING: ContextVar[InnerCalls | None] = ContextVar("pb_graph_inner_calls", default=None)
register_configure_hook(_HEARING, inheritable=True)


def heard_on() -> Budget | None:
    """What the call of ours draws on that hears, and counts, all calls that are made here."""
    heard_by = _HEARING.get()
    return heard_by._call.account if heard_by else None  # noqa: SLF001 -- of this module
