"""One request to the solver within its budget, under any enforcement."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pb_graph.answers import is_in_form
from pb_graph.budget.context import available_tokens, current_budget, use_budget
from pb_graph.budget.ledger import most_billed, spent
from pb_graph.errors import ModelCallError
from pb_graph.prompts import Style, forced_answer_prompt, solver_style
from pb_graph.runtime.calls import tell
from pb_graph.runtime.tools import MAX_ROUNDS, without_tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.tools import BaseTool

    from pb_graph.budget.ledger import Prices
    from pb_graph.models.options import Thinking
    from pb_graph.models.reply import Reply
    from pb_graph.prompts import PromptMessage
    from pb_graph.runtime.answer_type import AnswerType
    from pb_graph.runtime.calls import ModelCalls
    from pb_graph.settings import Settings
    from pb_graph.state import State
    from pb_graph.types import Charge, Finish, Purpose, Query

    Ask = Callable[..., Awaitable[Reply]]


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
    prompt: Sequence[PromptMessage | BaseMessage],
    budget: int | None,
    query: Query,
    purpose: Purpose,
    *,
    closing: bool = True,
    stream: bool = True,
    thinking: Thinking | None = None,
    surprisal: float = 0.0,  # noqa: ARG001 -- goes with the methods that give it
) -> BudgetedReply:
    """Ask once; under ``force``, keep a reserve back for asking an unfinished answer's result.

    Out of what is left, an answer that ended without the box that its format asks for is asked for
    it: small models told to be short leave it out, and what reads the answer looks for it.

    Args:
        run: The models, and the settings: enforcement, reserve and cutoff.
        prompt: The request.
        budget: Tokens for it; None for methods without a budget.
        query: For the answer format of a forced ending.
        purpose: What the calls are charged to.
        closing: Whether an unfinished reply is asked for the final answer of the question.
        stream: Whether a host that streams is shown the reply as the answer.
        thinking: How much the model may think, where that is not for the budget to say.
        surprisal: Without effect.

    Raises:
        ModelCallError: The request failed for good; a forced ending that fails is in the reply.
    """
    around, cap, forces = current_budget(), run.cap_of(budget), run.forces(budget)
    answer_type = run.options.answer_type if closing else None
    least = max(run.settings.reserve, answer_type.reserve if answer_type else 0)
    reserve = min(least, _most_reserved(available_tokens(cap), closing=closing)) if forces else 0
    # A budget that is only said must not show elsewhere.
    said_only = budget is None or run.settings.enforcement == "prompt"
    ask = partial(
        run.calls.solver,
        purpose=purpose,
        thinking=thinking or ("free" if said_only else "bounded"),
        # What is written while there are tools may turn out to be no answer.
        stream=stream and not run.options.tools,
        tools=run.options.tools,
    )
    # Of a shared budget, others that ask meanwhile leave the reserve.
    with around.grant(reserve) if around else nullcontext() as kept:
        prompt, reply, made = await _worked(run, ask, prompt, cap - reserve)
        close = partial(
            run.calls.solver,
            purpose=purpose,
            thinking="off",
            stream=stream,
            schema=answer_type.schema if answer_type else None,
        )
        with use_budget(max(kept, around, key=lambda one: one.left) if kept and around else None):
            return await _ended(run, close, prompt, reply, made, budget, query, closing=closing)


async def _worked(
    run: NodeContext, ask: Ask, prompt: Sequence[PromptMessage | BaseMessage], cap: int
) -> tuple[Sequence[PromptMessage | BaseMessage], Reply, list[Charge]]:
    """Ask and, while the reply calls tools, ask again with their results, all within the cap.

    Returns:
        The prompt with what the tools gave, the last reply, and what all of them were charged.
    """
    paid: list[Charge] = []
    for left in range(MAX_ROUNDS, -1, -1):
        try:
            reply = await ask(prompt, cap - run.gone(paid))
        except ModelCallError as failure:
            failure.lost = (*paid, *failure.lost)  # for its step, which cost all of them
            raise
        paid += [*reply.lost, reply.charge]
        if not (reply.tool_message and left and run.gone(paid) < cap):
            break
        prompt = [*prompt, *await run.calls.use_tools(run.options.tools, reply.tool_message)]
    return prompt, reply, paid


async def _ended(  # noqa: PLR0913, PLR0917 -- what was asked, what came of it, and how it may end
    run: NodeContext,
    close: Ask,
    prompt: Sequence[PromptMessage | BaseMessage],
    reply: Reply,
    made: Sequence[Charge],
    budget: int | None,
    query: Query,
    *,
    closing: bool,
) -> BudgetedReply:
    """The reply as it is; or with its result, for which ``close`` asks, where it is unfinished."""
    paid, cap, forces = spent(made), run.cap_of(budget), run.forces(budget)
    finish: Finish = "length" if reply.finish == "length" else "stop"
    left = cap - run.gone(made)
    if answer_type := run.options.answer_type if closing else None:
        fits = answer_type.read(reply.text) is not None
    else:
        fits = not (forces and closing) or is_in_form(reply.text, query["answer_format"])
    whole = finish == "stop" and bool(reply.text) and not reply.tool_message
    asks_again = not fits if whole else forces or bool(reply.tool_message)
    if left <= 0 or not asks_again:
        return BudgetedReply(reply.text, paid, finish, max(0, paid - cap))
    try:
        stated = await close(
            forced_answer_prompt(without_tools(prompt), reply.text, query, is_final=closing), left
        )
    except ModelCallError as failure:  # what was paid for already is kept
        finish, paid = finish if reply.text else "error", paid + failure.tokens
        return BudgetedReply(reply.text, paid, finish, max(0, paid - cap), str(failure))
    paid += stated.tokens
    text = stated.text or reply.text
    if closing and stated.text:  # a final answer keeps the working that led to it
        text = f"{reply.text}\n\n{stated.text}".strip()
    return BudgetedReply(text, paid, finish if whole else "forced", max(0, paid - cap))


def _most_reserved(cap: int, *, closing: bool) -> int:
    """Half of a small cap; two thirds for the final answer, which is what the rest was paid for.

    The smallest share (24 tokens by default) so ends in 16 tokens, enough for a boxed number.
    """
    return cap * 2 // 3 if closing else cap // 2


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """What `build_graph` was given beside models and settings."""

    prices: Prices | None = None
    answer_type: AnswerType | None = None
    tools: tuple[BaseTool, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What a node has besides the state: the settings of this run, and the models."""

    settings: Settings
    calls: ModelCalls
    options: GraphOptions = GraphOptions()

    call_within_budget = call_within_budget
    tell = staticmethod(tell)

    async def style(self, query: Query) -> Style:
        """Return the style in which a question is solved: a program's own, else the settings'."""
        taught = await self.calls.teaching()
        is_free = not (self.options.tools or self.options.answer_type)
        return solver_style(self.settings, query, taught, is_free=is_free)

    def cap_of(self, budget: int | None) -> int:
        """Completion tokens a request may cost: its budget if that is enforced, else the cutoff."""
        if budget is None or self.settings.enforcement == "prompt":
            return self.settings.cutoff
        return min(budget, self.settings.cutoff)

    def forces(self, budget: int | None) -> bool:
        """Whether an unfinished reply is asked for its result, for which a reserve is kept back."""
        return budget is not None and self.settings.enforcement == "force"

    def gone(self, charges: Iterable[Charge]) -> int:
        """Return the completion tokens that calls took off a budget, as billed at most."""
        return most_billed(charges)
