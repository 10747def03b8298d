"""One request to the solver within its budget, under any enforcement."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

from pb_graph.answers import is_in_form
from pb_graph.budget.around import at_hand, current, using
from pb_graph.budget.ledger import LEFT, SURPRISAL, spent
from pb_graph.errors import ModelCallError
from pb_graph.models.repetition import repeated
from pb_graph.prompts import forced
from pb_graph.runtime.tools import MAX_ROUNDS, without_tools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

    from pb_graph.budget.ledger import Charge
    from pb_graph.models.caps import Thinking
    from pb_graph.models.reply import Purpose, Reply
    from pb_graph.prompts import Turn
    from pb_graph.runtime.node import NodeContext
    from pb_graph.state import Finish, Query, State


class BudgetedReply(NamedTuple):
    """What came of a request: the text, all completion tokens spent on it, and how it ended."""

    text: str
    tokens: int
    finish: Finish
    overrun: int
    """Tokens above the cap, when a server took no notice of it."""
    failure: str = ""
    """Why the forced ending could not be had."""

    def update(self, node: str = "answer") -> State:
        """What the node that asked adds to the state, if this is the answer."""
        return {"answer": self.text, "finish": self.finish, "warnings": self.notes(node)}

    def notes(self, what: str) -> list[str]:
        """What a reader of the report should know about this request."""
        found = []
        if self.failure:
            found.append(f"{what}: its forced ending failed. {self.failure}")
        if self.overrun:
            found.append(f"{what}: the server wrote {self.overrun} tokens more than its cap")
        return found


async def call_within_budget(  # noqa: PLR0913 -- what to ask, for whom, and within what
    run: NodeContext,
    prompt: Sequence[Turn | BaseMessage],
    budget: int | None,
    query: Query,
    purpose: Purpose,
    *,
    closing: bool = True,
    stream: bool = True,
    thinking: Thinking | None = None,
    confidence: bool = False,
    surprisal: float = 0.0,
) -> BudgetedReply:
    """Ask once; under ``force``, keep a reserve back for asking an unfinished answer's result.

    A reply that goes round in circles is unfinished, too: where its server can be made to stop, it
    ends there, and what it says again is not said to the model. So is one that has become too
    improbable, where that is to be minded. Out of what is left, an answer that
    ended without the box that its format asks for is asked for it: small models told to be short
    leave it out, and what reads the answer looks for it.

    Args:
        run: The models, and the settings: enforcement, reserve and cutoff.
        prompt: The request.
        budget: Tokens for it; None for methods without a budget.
        query: For the answer format of a forced ending.
        purpose: What the calls are charged to.
        closing: Whether an unfinished reply is asked for the final answer of the question.
        stream: Whether a host that streams is shown the reply as the answer.
        thinking: How much the model may think, where that is not for the budget to say.
        confidence: Whether to charge the reply with the model's confidence.
        surprisal: Nats; under ``force``, a reply that is less probable than this is over. 0 for
            no limit.

    Raises:
        ModelCallError: The request failed for good; a forced ending that fails is in the reply.
    """
    settings = run.settings
    cap = run.cap_of(budget)
    forces = budget is not None and settings.enforcement == "force"
    answer_type = run.options.answer_type if closing else None
    least = max(settings.reserve, answer_type.reserve if answer_type else 0)
    around = current()
    reserve = min(least, _most_reserved(at_hand(cap), closing=closing)) if forces else 0
    # A budget that is only said must not show elsewhere.
    said_only = budget is None or settings.enforcement == "prompt"
    how = thinking or ("free" if said_only else "bounded")
    watches = forces and not run.options.tools
    # Of a shared budget, others that ask meanwhile leave it.
    with around.grant(reserve) if around else nullcontext() as kept:
        prompt, reply, made = await _worked(
            run,
            prompt,
            cap - reserve,
            purpose,
            how,
            stream=stream,
            confidence=confidence,
            ends_repetition=watches,
            surprisal=surprisal if watches else 0.0,
        )
        paid = spent(made)
        finish: Finish = "length" if reply.finish in ("length", *LEFT) else "stop"
        left = cap - run.gone(made)
        partial = reply.text
        if forces and finish == "length" and (again := repeated(partial)):
            partial, left = partial[:-again].rstrip(), min(left, reserve)
        if reply.finish == SURPRISAL:
            left = min(left, reserve)
        whole = finish == "stop" and bool(reply.text) and not reply.calls_tools
        if answer_type:
            fits = answer_type.read(reply.text) is not None
        else:
            fits = not (forces and closing) or is_in_form(reply.text, query["answer_format"])
        asks_again = not fits if whole else forces or bool(reply.calls_tools)
        if left <= 0 or not asks_again:
            return BudgetedReply(reply.text, paid, finish, max(0, paid - cap))
        ending = forced(without_tools(prompt), partial, query, final=closing)
        follows = f"{reply.text}\n\n" if stream else None
        schema = answer_type.schema if answer_type else None
        try:
            with using(max(kept, around, key=lambda one: one.left) if kept and around else None):
                stated = await run.calls.solver(
                    ending, left, purpose, thinking="off", follows=follows, schema=schema
                )
        except ModelCallError as failure:  # what was paid for already is kept
            ended: Finish = finish if reply.text else "error"
            return BudgetedReply(reply.text, paid + failure.tokens, ended, 0, str(failure))
        paid += stated.tokens
        text = _joined(reply.text, stated.text, closing=closing)
        return BudgetedReply(text, paid, finish if whole else "forced", max(0, paid - cap))


async def _worked(  # noqa: PLR0913 -- as the function above
    run: NodeContext,
    prompt: Sequence[Turn | BaseMessage],
    cap: int,
    purpose: Purpose,
    thinking: Thinking,
    *,
    stream: bool,
    confidence: bool,
    ends_repetition: bool,
    surprisal: float,
) -> tuple[Sequence[Turn | BaseMessage], Reply, list[Charge]]:
    """Ask and, while the reply calls tools, ask again with their results, all within the cap.

    Returns:
        The prompt with what the tools gave, the last reply, and what all of them were charged. What
        is written while there are tools is not streamed: it may turn out to be no answer.
    """
    tools = run.options.tools
    follows = "" if stream and not tools else None
    paid: list[Charge] = []
    for left in range(MAX_ROUNDS, -1, -1):
        try:
            reply = await run.calls.solver(
                prompt,
                cap - run.gone(paid),
                purpose,
                thinking=thinking,
                follows=follows,
                tools=tools,
                ends_repetition=ends_repetition,
                surprisal=surprisal,
                confidence=confidence,
            )
        except ModelCallError as failure:
            failure.lost = (*paid, *failure.lost)  # for its step, which cost all of them
            raise
        paid += [*reply.lost, reply.charge]
        if not (reply.calls_tools and left and run.gone(paid) < cap):
            break
        prompt = [*prompt, *await run.calls.use_tools(tools, reply.calls_tools)]
    return prompt, reply, paid


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
