"""One request to the solver within its budget, under any enforcement."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pb_graph.errors import ModelCallError
from pb_graph.prompts import forced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pb_graph.models.caps import Thinking
    from pb_graph.models.reply import Purpose
    from pb_graph.prompts import Turn
    from pb_graph.runtime.node import NodeContext
    from pb_graph.settings import Settings
    from pb_graph.state import Finish, Query


class BudgetedReply(NamedTuple):
    """What came of a request: the text, all completion tokens spent on it, and how it ended."""

    text: str
    tokens: int
    finish: Finish
    overrun: int
    """Tokens above the cap, when a server took no notice of it."""
    failure: str = ""
    """Why the forced ending could not be had."""

    def notes(self, what: str) -> list[str]:
        """What a reader of the report should know about this request."""
        found = []
        if self.failure:
            found.append(f"{what}: its forced ending failed. {self.failure}")
        if self.overrun:
            found.append(f"{what}: the server wrote {self.overrun} tokens more than its cap")
        return found


def cap_of(budget: int | None, settings: Settings) -> int:
    """Completion tokens a request may cost: its budget if that is enforced, else the cutoff."""
    if budget is None or settings.enforcement == "prompt":
        return settings.cutoff
    return min(budget, settings.cutoff)


def _thinking(budget: int | None, settings: Settings) -> Thinking:
    """Bounded only by a budget that is enforced: one that is only said must not show elsewhere."""
    return "free" if budget is None or settings.enforcement == "prompt" else "bounded"


async def call_within_budget(  # noqa: PLR0913 -- what to ask, for whom, and within what
    run: NodeContext,
    prompt: Sequence[Turn],
    budget: int | None,
    query: Query,
    purpose: Purpose,
    *,
    closing: bool,
    stream: bool,
    thinking: Thinking | None = None,
) -> BudgetedReply:
    """Ask once; under ``force``, keep a reserve back for asking an unfinished answer's result.

    Args:
        run: The models, and the settings: enforcement, reserve and cutoff.
        prompt: The request.
        budget: Tokens for it; None for methods without a budget.
        query: For the answer format of a forced ending.
        purpose: What the calls are charged to.
        closing: Whether an unfinished reply is asked for the final answer of the question.
        stream: Whether a host that streams is shown the reply as the answer.
        thinking: How much the model may think, where that is not for the budget to say.

    Raises:
        ModelCallError: The request failed for good; a forced ending that fails is in the reply.
    """
    settings = run.settings
    cap = cap_of(budget, settings)
    forces = budget is not None and settings.enforcement == "force"
    reserve = min(settings.reserve, _most_reserved(cap, closing=closing)) if forces else 0
    reply = await run.calls.solver(
        prompt,
        cap - reserve,
        purpose,
        thinking=thinking or _thinking(budget, settings),
        follows="" if stream else None,
    )
    spent = reply.tokens
    finish: Finish = "length" if reply.finish == "length" else "stop"
    left = cap - (reply.most_billed if settings.strict_ceiling else spent)
    if not forces or left <= 0 or (finish == "stop" and reply.text):
        return BudgetedReply(reply.text, spent, finish, max(0, spent - cap))
    ending = forced(prompt, reply.text, query, final=closing)
    follows = f"{reply.text}\n\n" if stream else None
    try:
        stated = await run.calls.solver(ending, left, purpose, thinking="off", follows=follows)
    except ModelCallError as failure:  # what was paid for already is kept
        ended: Finish = finish if reply.text else "error"
        return BudgetedReply(reply.text, spent + failure.tokens, ended, 0, str(failure))
    spent += stated.tokens
    text = _joined(reply.text, stated.text, closing=closing)
    return BudgetedReply(text, spent, "forced", max(0, spent - cap))


def _most_reserved(cap: int, *, closing: bool) -> int:
    """Half of a small cap; two thirds for the final answer, which is what the rest was paid for.

    The smallest share (24 tokens by default) so ends in 16 tokens, enough for a boxed number.
    """
    return cap * 2 // 3 if closing else cap // 2


def _joined(partial: str, statement: str, *, closing: bool) -> str:
    """The stated result; a final answer keeps the working that led to it."""
    if closing and statement:
        return f"{partial}\n\n{statement}".strip()
    return statement or partial
