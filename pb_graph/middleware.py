"""A token budget for the model calls of any LangChain agent, and of the agents below it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypeVar

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import (
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, Overwrite

from pb_graph.budget.around import drawing_on, drawn_on, using
from pb_graph.budget.checks import real_number, whole_number
from pb_graph.budget.shared import Budget, limited
from pb_graph.budget.snapshots import newer
from pb_graph.budgeted_model import BudgetedChatModel
from pb_graph.runtime.branches import known_everywhere
from pb_graph.runtime.node import finished
from pb_graph.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime

    from pb_graph.turn import Ask

R = TypeVar("R")

_ACCOUNT, _SPENT = "token_budget", "tokens_spent"


def _most(before: int, after: int) -> int:
    return max(before, after)


class TokenBudgetState(AgentState[Any]):
    """What the middleware adds to an agent's state."""

    tokens_spent: NotRequired[Annotated[int, _most]]
    """Completion tokens that this run has spent, with the agents below it."""
    token_budget: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, newer]]
    """The account, so that a run that is resumed goes on with it."""


class TokenBudgetMiddleware(AgentMiddleware[TokenBudgetState, Any]):
    """Keeps an agent's model calls, and those of its sub-agents, within completion tokens.

    Every call is capped by what is left, and has its cap reserved before it is made. A part is kept
    back, so that the agent never stops half-way: a call that was cut off, or that has only this
    part left, is followed by, or becomes, one that has no tools and is told to answer now. What was
    cut off stays: the message is its text, then the ending, with the usage of both calls. From
    ``warn_at`` on the model is told how little is left. A call whose cost nobody knows (the
    connection broke, it was cancelled) counts with its whole cap.

    Sub-agents that have this middleware, too, with a number of their own or with the same
    `Budget`, draw on the budget of the agent that called them: tool calls of one turn have equal
    parts of what is left, and what one of them leaves returns. So does `plan_and_budget_tool`. One
    with a grant of that budget spends the grant, which was set aside, and no part.
    Agents without the middleware are not capped.

    ``tokens_spent`` in the agent's output says what was spent; it counts the run, not the thread,
    and not what sub-agents spent of grants: ``budget.spent`` has all.
    A run that is interrupted and resumed goes on with its account, also in another process.

    Args:
        total: Completion tokens of a run; or a `Budget`, which all runs and agents that are given
            it spend together. Where several of them run at once and nobody divides it, calls wait
            for each other as long as ``per_call`` lets one of them reserve all that is left.
        per_call: Completion tokens of a single call; None for no limit but what is left.
        warn_at: Share of the total from which on the model is told.
        reserve: Share of the total kept back for the final answer.

    Raises:
        ValueError: A figure out of its range; it names the range.
    """

    state_schema = TokenBudgetState

    def __init__(
        self,
        total: int | Budget,
        *,
        per_call: int | None = None,
        warn_at: float = 0.8,
        reserve: float = 0.1,
    ) -> None:
        super().__init__()
        self.budget = total if isinstance(total, Budget) else None
        given = total.total if isinstance(total, Budget) else total
        self.total = whole_number("total", given, least=2)
        self.per_call = (
            per_call if per_call is None else whole_number("per_call", per_call, least=1)
        )
        for name, share in (("warn_at", warn_at), ("reserve", reserve)):
            if not 0 < real_number(name, share) < 1:
                msg = f"{name} must lie between 0 and 1, not {share}"
                raise ValueError(msg)
        self.warn_at = warn_at
        self.reserve = reserve

    def before_agent(self, state: TokenBudgetState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Open the account of a run; one that is resumed has it already."""
        del state, runtime
        return {_ACCOUNT: Overwrite(self._account({}).snapshot()), _SPENT: Overwrite(0)}

    def after_agent(self, state: TokenBudgetState, runtime: Runtime[Any]) -> None:
        """Close the account of a run."""
        del runtime
        self._account(state).close()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Cap one call, and finish the answer if that cut it off."""
        return finished(self._response(request, handler, blocking=True))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ExtendedModelResponse[Any]:
        """`wrap_model_call` for an event loop; at most two calls."""
        return await self._response(request, handler, blocking=False)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[..., Any]) -> Any:  # noqa: ANN401 -- as LangChain's
        """Let what a tool call runs draw on its part of the budget."""
        return finished(self._tool_result(request, handler, blocking=True))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[..., Awaitable[Any]]
    ) -> Any:  # noqa: ANN401
        """`wrap_tool_call` for an event loop."""
        return await self._tool_result(request, handler, blocking=False)

    async def _tool_result(
        self, request: ToolCallRequest, handler: Callable[..., Any], *, blocking: bool
    ) -> Any:  # noqa: ANN401
        account = await self._resumed(request.state, blocking=blocking)
        part = self._part(account, request)
        try:
            with using(part):
                result = handler(request)
                if not blocking:
                    result = await result
        except GraphInterrupt:  # goes on with the same part when it is resumed
            raise
        except BaseException:
            part.close()
            raise
        part.close()
        return _accounted(result, account)

    async def _response(
        self, request: ModelRequest[Any], ask: Ask, *, blocking: bool
    ) -> ExtendedModelResponse[Any]:
        own = await self._resumed(request.state, blocking=blocking)
        kept, per_call, retries = self._kept(own), self.per_call, None
        within: tuple[Budget, ...] = (own,)
        if isinstance(model := request.model, BudgetedChatModel):  # one of the two has to count
            its, retries = model.budget, model.retry_policy
            per_call = min((most for most in (per_call, model.per_call) if most), default=None)
            request = request.override(model=model.plain)
            within = (own, its) if its and not own.is_part_of(its) else within
        with drawing_on(*within) as account:
            turn = Turn(
                request,
                ask,
                account,
                kept=kept,
                last=account,
                enough=kept,
                per_call=per_call,
                warn_at=self.warn_at,
                blocking=blocking,
                retries=retries,
            )
            response = await turn.response()
        return ExtendedModelResponse(response, Command(update=_update(own)))

    def _kept(self, account: Budget) -> int:
        """Tokens that are kept back for the final answer."""
        return max(1, math.ceil(account.total * self.reserve))

    async def _resumed(self, state: Mapping[str, Any], *, blocking: bool) -> Budget:
        """The account of this run, with what was spent since the checkpoint it goes on from."""
        if kept := state.get(_ACCOUNT):
            state = {_ACCOUNT: await known_everywhere(_ACCOUNT, kept, blocking=blocking)}
        return self._account(state)

    def _account(self, state: Mapping[str, Any]) -> Budget:
        """The account of this run: the one that the state knows of, wherever that was written."""
        above = drawn_on(self.budget)
        if found := state.get(_ACCOUNT):
            return Budget.restore(found, above)
        total = min([self.total, *(one.total for one in above)])
        account = limited(total, above, None if self.budget else self.total)
        account.charge(state.get(_SPENT, 0))
        return account

    def _part(self, account: Budget, request: ToolCallRequest) -> Budget:
        """What one of a turn's tool calls may spend: as much as each of the others still to come.

        It is the same one when a call that paused is made once more.
        """
        last = next(m for m in reversed(request.state["messages"]) if isinstance(m, AIMessage))
        names = [f"{last.id}/{call['id']}" for call in last.tool_calls]
        name = f"{last.id}/{request.tool_call['id']}"
        return account.part(name, names, keep=self._kept(account))


def _update(account: Budget) -> dict[str, Any]:
    return {_ACCOUNT: account.snapshot(), _SPENT: account.spent}


def _accounted(result: Any, account: Budget) -> Any:  # noqa: ANN401 -- a message or a command
    """What a tool call gave, with the account after it; a sub-agent's own is not the caller's."""
    if isinstance(result, ToolMessage):
        return Command(update={"messages": [result], **_update(account)})
    if isinstance(result, Command) and result.graph is None and isinstance(result.update, dict):
        return replace(result, update={**result.update, **_update(account)})
    return result
