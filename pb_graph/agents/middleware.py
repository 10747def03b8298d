"""Token budget middleware for LangChain agents."""

from __future__ import annotations

import math
import operator
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NotRequired
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import (
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command, Overwrite

from pb_graph.agents.budgeted_request import BudgetedRequest
from pb_graph.agents.model import BudgetedChatModel
from pb_graph.budget.account import Budget
from pb_graph.budget.checks import real_number, whole_number
from pb_graph.budget.context import accounts_in_scope, open_run, use_budget

if TYPE_CHECKING:
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime

# The account of the model or tool call that this context makes: its attempts share it.
_ATTEMPTED: ContextVar[tuple[tuple[str, str], Budget] | None] = ContextVar(
    "pb_graph_attempted", default=None
)


class TokenBudgetState(AgentState[Any]):
    """State schema for `TokenBudgetMiddleware`.

    The checkpoint of `tokens_spent` is the account of a run: a run that is resumed goes on from it.
    """

    tokens_spent: NotRequired[Annotated[int, operator.add]]
    """Completion tokens that this run has spent, with the agents below it."""
    tokens_per_tool_call: NotRequired[Annotated[int, PrivateStateAttr]]
    """Completion tokens that each tool call of the last message may spend."""
    token_budget_run: NotRequired[Annotated[str, PrivateStateAttr]]
    """Identity of this run."""


class TokenBudgetMiddleware(AgentMiddleware[TokenBudgetState, Any]):
    """Limit the completion tokens of an agent and of the agents below it.

    Each model call reserves its cap in the budget before it is made, and is settled after it. A
    part of the budget is reserved for the final answer: when a call is truncated, or only the
    reserve is left, the model is asked once more, without tools, for its final answer. The
    truncated text stays: the message is that text and the ending, with the usage of both calls.

    Sub-agents with this middleware draw on the budget of the agent that called them. The tool calls
    of one message share what is left in equal parts. `plan_and_budget_tool` and
    `BudgetedChatModel` draw on it, too. A sub-agent with a `Budget` of its own from the same tree,
    such as a grant, spends that budget alone. Agents without the middleware are not limited.

    A call whose cost is unknown (a broken connection, a cancelled task) counts with its whole cap.
    The retries of the provider's SDK are turned off, as they cannot be counted; use LangChain's
    `ModelRetryMiddleware`.

    `tokens_spent` in the agent's output counts the run, not the thread. A run that is interrupted
    and resumed goes on with its account, also in another process.

    Example:
        ```python
        from langchain.agents import create_agent
        from pb_graph import TokenBudgetMiddleware

        agent = create_agent("openai:gpt-5-mini", middleware=[TokenBudgetMiddleware(4000)])
        ```
    """

    state_schema = TokenBudgetState

    def __init__(
        self,
        budget: int | Budget,
        *,
        per_call: int | None = None,
        warn_at: float = 0.8,
        reserve: float = 0.1,
    ) -> None:
        """Initialize the token budget middleware.

        Args:
            budget: Completion tokens of each run. Or a `Budget` that all runs and agents with it
                spend together; when several run at once, limit their calls by `per_call`.
            per_call: Maximum completion tokens of a single call. `None` means no limit but what is
                left.
            warn_at: Share of the budget after which the model is told how many tokens are left.
            reserve: Share of the budget reserved for the final answer.

        Raises:
            ValueError: A number is out of its range.
        """
        super().__init__()
        given = isinstance(budget, Budget)
        self.budget = budget if given else whole_number("budget", budget, least=2)
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
        """Start a new account. A run that is resumed keeps the one that it has."""
        del state, runtime
        return {"tokens_spent": Overwrite(0), "token_budget_run": uuid4().hex}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Make one model call within the budget, and a second one if the first was truncated."""
        account = self._account(request.state)
        response = self._budgeted(request, account).respond(handler)
        return self._counted(response, request.state, account)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ExtendedModelResponse[Any]:
        """Make one model call within the budget, and a second one if the first was truncated."""
        account = self._account(request.state)
        response = await self._budgeted(request, account).arespond(handler)
        return self._counted(response, request.state, account)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[..., Any]) -> Any:  # noqa: ANN401 -- as LangChain's
        """Make a tool call; the agents that it runs draw on its part of the budget."""
        account = self._account(request.state, str(request.tool_call["id"]))
        with self._part(account, request.state) as part, use_budget(part):
            result = handler(request)
        return _with_tokens_spent(result, _new_tokens(account, request.state))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[..., Awaitable[Any]]
    ) -> Any:  # noqa: ANN401
        """Make a tool call; the agents that it runs draw on its part of the budget."""
        account = self._account(request.state, str(request.tool_call["id"]))
        with self._part(account, request.state) as part, use_budget(part):
            result = await handler(request)
        return _with_tokens_spent(result, _new_tokens(account, request.state))

    def _account(self, state: Mapping[str, Any], call: str = "") -> Budget:
        """Return the run's account for one model or tool call, which attempts of it share.

        Args:
            state: The agent's state, with the tokens that the run has spent so far.
            call: The id of the tool call; empty for a call of the model.
        """
        run = state.get("token_budget_run", "")
        key = (run, call or f"model call {len(state['messages'])}")
        attempted = _ATTEMPTED.get()
        if run and attempted and attempted[0] == key:
            return attempted[1]
        account = open_run(self.budget, run=run, earlier=state.get("tokens_spent", 0))
        assert account  # noqa: S101 -- a budget is given
        _ATTEMPTED.set((key, account))
        return account

    def _keep(self, account: Budget) -> int:
        return max(1, math.ceil(account.total * self.reserve))

    def _budgeted(self, request: ModelRequest[Any], account: Budget) -> BudgetedRequest:
        accounts, per_call = accounts_in_scope(account), self.per_call
        if isinstance(model := request.model, BudgetedChatModel):  # only one of the two may count
            own = model.account
            if own and all(own.root is not one.root for one in accounts):
                accounts = (*accounts, own)
            per_call = min((most for most in (per_call, model.per_call) if most), default=None)
            request = request.override(model=model.plain)
        keep = self._keep(account)
        return BudgetedRequest(
            request, accounts, keep=keep, enough=keep, per_call=per_call, warn_at=self.warn_at
        )

    def _counted(
        self, response: ModelResponse[Any], state: Mapping[str, Any], account: Budget
    ) -> ExtendedModelResponse[Any]:
        """Return the response with what it cost, and what each of its tool calls may spend."""
        calls = sum(len(one.tool_calls) for one in response.result if isinstance(one, AIMessage))
        part = max(0, account.left - self._keep(account)) // max(1, calls)
        update = {"tokens_spent": _new_tokens(account, state), "tokens_per_tool_call": part}
        return ExtendedModelResponse(response, Command(update=update))

    def _part(self, account: Budget, state: Mapping[str, Any]) -> Budget:
        """Return what is left of a tool call's part after earlier attempts of the call."""
        left = max(0, account.left - self._keep(account))
        part = state.get("tokens_per_tool_call", left) - _new_tokens(account, state)
        return account.open_run(max(0, part))


def _new_tokens(account: Budget, state: Mapping[str, Any]) -> int:
    """Return the tokens that an account counted beyond the state; unknown bills with their caps."""
    return account.spent + account.unknown - int(state.get("tokens_spent", 0))


def _with_tokens_spent(result: Any, tokens: int) -> Any:  # noqa: ANN401 -- a message or a command
    """Return a tool's result with the tokens that it cost instead of a sub-agent's own count."""
    if isinstance(result, ToolMessage):
        return Command(update={"messages": [result], "tokens_spent": tokens})
    if isinstance(result, Command) and result.graph is None and isinstance(result.update, dict):
        return replace(result, update={**result.update, "tokens_spent": tokens})
    return result
