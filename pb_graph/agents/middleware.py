"""Token budget middleware for LangChain agents."""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
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
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, Overwrite

from pb_graph.agents.budgeted_request import BudgetedRequest
from pb_graph.agents.model import BudgetedChatModel
from pb_graph.budget.account import Budget, whole_number
from pb_graph.budget.context import accounts_in_scope, open_run, use_budget
from pb_graph.budget.schedules import real_number
from pb_graph.models.io import IO, AsyncIO, BlockingIO, run_sync

if TYPE_CHECKING:
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime

_LOCK = threading.Lock()
_MOST_RUNS = 1000  # runs whose accounts a middleware has at hand, with those that never ended


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
        self._runs: dict[str, Budget] = {}

    def before_agent(self, state: TokenBudgetState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Start a new account. A run that is resumed keeps the one that it has."""
        del state, runtime
        return {"tokens_spent": Overwrite(0), "token_budget_run": uuid4().hex}

    def after_agent(self, state: TokenBudgetState, runtime: Runtime[Any]) -> None:
        """Close the run's account."""
        del runtime
        self._runs.pop(state.get("token_budget_run", ""), None)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Make one model call within the budget, and a second one if the first was truncated."""
        return run_sync(self._response(request, handler, BlockingIO()))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ExtendedModelResponse[Any]:
        """Make one model call within the budget, and a second one if the first was truncated."""
        return await self._response(request, handler, AsyncIO())

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[..., Any]) -> Any:  # noqa: ANN401 -- as LangChain's
        """Make a tool call; the agents that it runs draw on its part of the budget."""
        with self._part(request.state) as part, use_budget(part):
            result = handler(request)
        return _with_tokens_spent(result, part)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[..., Awaitable[Any]]
    ) -> Any:  # noqa: ANN401
        """Make a tool call; the agents that it runs draw on its part of the budget."""
        with self._part(request.state) as part, use_budget(part):
            result = await handler(request)
        return _with_tokens_spent(result, part)

    def _account(self, state: Mapping[str, Any]) -> Budget:
        """Return the account of a run: the one at hand, or another one that starts from the state.

        The one at hand knows, besides, what was spent by attempts that left no trace in the state,
        such as those that another middleware repeated. It is of no use to a run that goes on within
        another account, or that has gone on in another process.
        """
        run, earlier = state.get("token_budget_run", ""), state.get("tokens_spent", 0)
        around = accounts_in_scope(self.budget if isinstance(self.budget, Budget) else None)
        with _LOCK:
            account = self._runs.get(run)
            is_elsewhere = account is not None and around and account.parent is not around[0]
            if account is None or is_elsewhere or _used(account) < earlier:
                account = open_run(self.budget, run=run, earlier=earlier)
                assert account  # noqa: S101 -- a budget is given
                if run:
                    self._runs[run] = account
                if len(self._runs) > _MOST_RUNS:
                    del self._runs[next(iter(self._runs))]
            return account

    async def _response(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any], io: IO
    ) -> ExtendedModelResponse[Any]:
        async def ask(asked: ModelRequest[Any]) -> ModelResponse[Any]:
            made: ModelResponse[Any] = await io.call(handler, handler, asked)
            return made

        state: Mapping[str, Any] = request.state
        account = self._account(state)
        accounts, per_call, keep = accounts_in_scope(account), self.per_call, self._keep(account)
        if isinstance(model := request.model, BudgetedChatModel):  # only one of the two may count
            own = model.account
            if own and all(own.root is not one.root for one in accounts):
                accounts = (*accounts, own)
            per_call = min((most for most in (per_call, model.per_call) if most), default=None)
            request = request.override(model=model.plain)
        budgeted = BudgetedRequest(request, accounts, keep, keep, per_call, self.warn_at)
        response = await budgeted.respond(ask, io)
        calls = sum(len(one.tool_calls) for one in response.result if isinstance(one, AIMessage))
        update = {
            "tokens_spent": _used(account) - state.get("tokens_spent", 0),
            "tokens_per_tool_call": self._left(account) // max(1, calls),
        }
        return ExtendedModelResponse(response, Command(update=update))

    def _keep(self, account: Budget) -> int:
        return max(1, math.ceil(account.total * self.reserve))

    def _left(self, account: Budget) -> int:
        return max(0, account.left - self._keep(account))

    @contextmanager
    def _part(self, state: Mapping[str, Any]) -> Iterator[Budget]:
        """Open the part of the run's account that one tool call may spend."""
        account = self._account(state)
        left = self._left(account)
        try:
            with account.open_run(min(left, state.get("tokens_per_tool_call", left))) as part:
                yield part
        except GraphInterrupt:  # the run goes on from its state, in whatever process
            self._runs.pop(state.get("token_budget_run", ""), None)
            raise


def _used(account: Budget) -> int:
    """Return the tokens of all calls, those with an unknown bill by their caps."""
    return account.spent + account.unknown


def _with_tokens_spent(result: Any, part: Budget) -> Any:  # noqa: ANN401 -- a message or a command
    """Return a tool's result with the tokens that it cost instead of a sub-agent's own count."""
    if isinstance(result, ToolMessage):
        return Command(update={"messages": [result], "tokens_spent": _used(part)})
    if isinstance(result, Command) and result.graph is None and isinstance(result.update, dict):
        return replace(result, update={**result.update, "tokens_spent": _used(part)})
    return result
