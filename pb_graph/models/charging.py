"""What a call that failed does to the budget that it reserved its cap from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pb_graph.models.faults import may_be_paid
from pb_graph.models.usage import reported, tokens_of

if TYPE_CHECKING:
    from pb_graph.budget.shared import Call


def settle_failed(call: Call, error: Exception) -> None:
    """Count what a failed attempt is known to have cost.

    Nothing for one that was refused or never sent; all that was reserved where nobody can say.
    LangChain's errors about an answer's form carry the answer, which was paid for.
    """
    tokens, answer = reported(error), getattr(error, "ai_message", None)
    if tokens is None and answer is not None:
        tokens = tokens_of(answer, [])
    if tokens is not None:
        call.settle(tokens.output)
    elif may_be_paid(error):
        call.keep()
    else:
        call.settle(0)
