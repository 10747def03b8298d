"""Token budget middleware for LangChain agents."""

from __future__ import annotations

import operator
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, NotRequired, get_args
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import (
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command, Overwrite

from pb_graph.agents.answer import Answer, CallLimits, charged, reserve_of
from pb_graph.budget.account import Budget
from pb_graph.budget.bill import add_spending, subtract_spending, whole_number
from pb_graph.budget.scope import accounts_in_scope, open_run, use_budget
from pb_graph.errors import BudgetUsedUpError, InputError
from pb_graph.models.options import key_of
from pb_graph.models.reply import ASYNC, BLOCKING, IO, run_sync
from pb_graph.run.journal import Journal
from pb_graph.run.pause import BudgetPause, Decision, OnUsedUp, pause_of, read_decision
from pb_graph.types import Spending

_LOCK = threading.Lock()
_SPENT = "TokenBudgetMiddleware"  # the entry of a node's spending in its journal
_MAX_RUNS = 1000  # accounts that a middleware keeps; abandoned runs count as well


class TokenBudgetState(AgentState[Any]):
    """State schema for `TokenBudgetMiddleware`.

    A resumed run continues from the checkpoint of `tokens_by_model`.
    """

    tokens_spent: NotRequired[Annotated[int, operator.add]]
    """Completion tokens that this run has spent, with the agents below it."""
    tokens_by_model: NotRequired[Annotated[Spending, add_spending]]
    """Tokens that this run has spent by model, with the agents below it."""
    budget_per_tool_call: NotRequired[Annotated[float, PrivateStateAttr]]
    """The share of each tool call of the last message, in the budget's unit."""
    budget_reserve: NotRequired[Annotated[float, PrivateStateAttr]]
    """The amount kept for the final answer, in the budget's unit."""
    budget_total: NotRequired[Annotated[float, PrivateStateAttr]]
    """The run's total, in the budget's unit, which may have been raised."""
    token_budget_run: NotRequired[Annotated[str, PrivateStateAttr]]
    """Identity of this run."""


@dataclass(init=False)
class BudgetedModelRequest(ModelRequest[Any]):
    """A request whose model is charged, also the one that another middleware puts in its place.

    Attributes:
        limits: What the calls for this request may spend.
    """

    limits: CallLimits | None = None

    def __init__(self, *, limits: CallLimits, model: BaseChatModel, **parts: Any) -> None:  # noqa: ANN401
        object.__setattr__(self, "limits", limits)
        super().__init__(model=charged(model, limits), **parts)

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401
        if name == "model" and self.limits:
            value = charged(value, self.limits)
        super().__setattr__(name, value)

    @classmethod
    def of(cls, request: ModelRequest[Any], limits: CallLimits) -> BudgetedModelRequest:
        """Return a request within limits, and within those that it already has."""
        if isinstance(request, cls) and request.limits:
            limits = limits.within(request.limits.accounts, request.limits.per_call)
        parts = {part.name: getattr(request, part.name) for part in fields(ModelRequest)}
        return cls(limits=limits, **parts)


class TokenBudgetMiddleware(AgentMiddleware[TokenBudgetState, Any]):
    """Limit the tokens or dollars of an agent and its sub-agents.

    Each model call reserves its cap in the budget before it is made, and is settled after it. A
    part of the budget is reserved for the final answer: when a call is truncated, or only the
    reserve is left, the model is asked once more, without tools, to finish.

    Sub-agents with this middleware draw on the budget of the agent that called them, and so do
    `plan_and_budget_tool` and `BudgetedChatModel`. Agents without the middleware are not limited.

    The retries of the provider's SDK are turned off, as they cannot be counted; use LangChain's
    `ModelRetryMiddleware`. `tokens_spent` and `tokens_by_model` in the agent's output count the
    run. A resumed run continues with its account, also in another process.

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
        reserve: float = 0.1,
        on_used_up: OnUsedUp = "answer",
        tell_every: int = 1,
    ) -> None:
        """Initialize the token budget middleware.

        Args:
            budget: Completion tokens of each run. Or a `Budget` of any unit that all runs and
                agents with it spend together; when several run at once, limit their calls by
                `per_call`.
            per_call: Maximum completion tokens of a single call. `None` means no further limit.
            reserve: Share of the budget reserved for the final answer.
            on_used_up: Action when only the reserve is left. ``"answer"`` asks for the final
                answer, ``"pause"`` interrupts the agent with a `BudgetPause` until it is resumed
                with a `BudgetDecision`, ``"error"`` raises `BudgetUsedUpError`.
            tell_every: Rounds of tool calls after which the model is told its remaining budget. The
                model is always told when less than a fifth is left; 0 means only then.

        Raises:
            InputError: If an argument is out of its range.
        """
        super().__init__()
        is_account = isinstance(budget, Budget)
        self.budget = budget if is_account else whole_number("budget", budget, minimum=2)
        self.per_call = (
            per_call if per_call is None else whole_number("per_call", per_call, minimum=1)
        )
        if not 0 < reserve < 1:
            msg = f"reserve must lie between 0 and 1, not {reserve}"
            raise InputError(msg)
        if on_used_up not in get_args(OnUsedUp):
            msg = f"on_used_up must be one of {', '.join(get_args(OnUsedUp))}, not {on_used_up!r}"
            raise InputError(msg)
        self.tell_every = whole_number("tell_every", tell_every, minimum=0)
        self.reserve, self.on_used_up = reserve, on_used_up
        self._runs: dict[str, Budget] = {}

    def before_agent(self, state: TokenBudgetState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Start a new account. A resumed run keeps its account."""
        del state, runtime
        empty: dict[str, Any] = {"tokens_spent": Overwrite(0), "tokens_by_model": Overwrite({})}
        return {**empty, "budget_total": 0.0, "token_budget_run": uuid4().hex}

    def after_agent(self, state: TokenBudgetState, runtime: Runtime[Any]) -> None:
        """Close the run's account."""
        del runtime
        self._runs.pop(state.get("token_budget_run", ""), None)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Make one model call within the budget, and a second one if the first was truncated."""
        return run_sync(self._response(request, handler, BLOCKING))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ExtendedModelResponse[Any]:
        """Make one model call within the budget, and a second one if the first was truncated."""
        return await self._response(request, handler, ASYNC)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[..., Any]) -> Any:  # noqa: ANN401 -- as LangChain's
        """Make a tool call; the agents that the tool runs share its part of the budget."""
        noted = run_sync(_Noted.read(request, BLOCKING))
        with self._part(request.state, noted) as part, use_budget(part):
            result = handler(request)
        return _with_tokens_spent(result, part)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[..., Awaitable[Any]]
    ) -> Any:  # noqa: ANN401
        """Make a tool call; the agents that the tool runs share its part of the budget."""
        noted = await _Noted.read(request, ASYNC)
        with self._part(request.state, noted) as part, use_budget(part):
            result = await handler(request)
        return _with_tokens_spent(result, part)

    def _account(self, state: Mapping[str, Any], stored: Mapping[str, Any] | None = None) -> Budget:
        """Return the existing account of a run, or a new account that starts from the state.

        The existing account also knows the cost of attempts that left no trace in the state, such
        as attempts that another middleware repeated. It is ignored if the run continues within
        another account, or has continued in another process.

        Args:
            state: The state of the run.
            stored: What the node has spent before it was cut off: it is not in the state.
        """
        run, earlier = state.get("token_budget_run", ""), state.get("tokens_by_model") or {}
        total = state.get("budget_total", 0)
        if stored and _output(stored["tokens"]) > _output(earlier):
            earlier, total = stored["tokens"], max(total, stored["total"])
        enclosing = accounts_in_scope(self.budget if isinstance(self.budget, Budget) else None)
        with _LOCK:
            account = self._runs.get(run)
            is_elsewhere = account is not None and enclosing and account.parent is not enclosing[0]
            if account is None or is_elsewhere or _output(account.spending) < _output(earlier):
                account = open_run(self.budget, run=run, earlier=earlier, is_agent=True)
                assert account  # noqa: S101 -- a budget is given
                if total > account.total:
                    account.raise_to(total)  # a decision in an earlier process raised it
                if run:
                    self._runs[run] = account
                if len(self._runs) > _MAX_RUNS:
                    del self._runs[next(iter(self._runs))]
            return account

    async def _response(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any], io: IO
    ) -> ExtendedModelResponse[Any]:
        async def ask(request: ModelRequest[Any], limits: CallLimits) -> ModelResponse[Any]:
            within = BudgetedModelRequest.of(request, limits)
            try:
                answer: ModelResponse[Any] = await io.call(handler, handler, within)
            finally:
                await write(paused)
            return answer

        state: Mapping[str, Any] = request.state
        journal = _journal()
        stored: Mapping[str, Any] | None = None  # the last entry: entries are never replaced
        key, entry = await journal.find(_SPENT, io) if journal else ("", None)
        while journal and entry:
            stored = entry
            key, entry = await journal.find(_SPENT, io)
        paused: BudgetPause | None = stored["pause"] if stored else None
        account = self._account(state, stored)

        async def write(pause: BudgetPause | None) -> None:
            nonlocal key
            if journal:
                entry = {"tokens": account.spending, "total": account.total, "pause": pause}
                await journal.write(key, entry, io)
                key, _ = await journal.find(_SPENT, io)
            for noted in _NOTED.get():
                await noted.write(state.get("token_budget_run", ""), account.spending, io)

        async def on_used_up(error: BudgetUsedUpError) -> Decision:
            if self.on_used_up == "error":
                raise error
            pause = pause_of(account, error, prompt)
            await write(pause)
            return read_decision(account, pause)

        prompt = str(request.messages[-1].text) if request.messages else ""
        answer = Answer(
            request,
            CallLimits(
                accounts_in_scope(account),
                keep := reserve_of(account, self.reserve),
                self.per_call,
                tell_every=self.tell_every,
            ),
            ask,
            reserve=keep,
            on_used_up=None if self.on_used_up == "answer" else on_used_up,
            decision=read_decision(account, paused) if paused else None,
        )
        response = await answer.respond()
        replies = [message for message in response.result if isinstance(message, AIMessage)]
        calls = sum(len(reply.tool_calls) for reply in replies)
        if account.needs_input and replies:
            keep = reserve_of(
                account, self.reserve, key_of(request.model), replies[-1].usage_metadata
            )
        spent, earlier = account.spending, state.get("tokens_by_model") or {}
        update = {
            "tokens_spent": _output(spent) - _output(earlier),
            "tokens_by_model": subtract_spending(spent, earlier),
            "budget_reserve": keep,
            "budget_per_tool_call": max(0, account.left - keep) / max(1, calls),
            "budget_total": account.total,
        }
        return ExtendedModelResponse(response, Command(update=update))

    @contextmanager
    def _part(self, state: Mapping[str, Any], noted: _Noted | None) -> Iterator[Budget]:
        """Open the part of the run's account that one tool call may spend.

        Args:
            state: The state of the run.
            noted: What the agents below the tool have spent, if the tool was cut off before.
        """
        account = self._account(state)
        keep = state.get("budget_reserve", reserve_of(account, self.reserve))
        left = max(0, account.left - keep)
        try:
            share = min(left, state.get("budget_per_tool_call", left))
            share = share if account.unit == "dollars" else int(share)
            with account.limit(share) as part:
                for run, tokens in (noted.runs if noted else {}).items():
                    if run not in account.runs_below:
                        part.charge(tokens, run=run, is_agent=True)
                token = _NOTED.set((*_NOTED.get(), noted) if noted else _NOTED.get())
                account.runs_below |= noted.runs.keys() if noted else set()
                try:
                    yield part
                finally:
                    _NOTED.reset(token)
                    account.runs_below |= noted.runs.keys() if noted else set()
        except GraphInterrupt:  # the run continues from its state, perhaps in another process
            self._runs.pop(state.get("token_budget_run", ""), None)
            raise


@dataclass
class _Noted:
    """Record what agents below a tool call have spent, beside the checkpoint of its node.

    An agent that has ended is not asked again when its tool starts over, so no account learns of
    its tokens.

    Attributes:
        journal: The journal of the tool's node.
        request: The identity of the tool call in it.
        key: The key of the next entry.
        runs: The tokens of each agent's run.
    """

    journal: Journal
    request: list[str]
    key: str
    runs: dict[str, Spending]

    @classmethod
    async def read(cls, request: ToolCallRequest, io: IO) -> _Noted | None:
        """Return what was written before the tool was cut off; None without a checkpointer."""
        if (journal := _journal()) is None:
            return None
        name, runs = [_SPENT, str(request.tool_call["id"])], dict[str, Spending]()
        key, entry = await journal.find(name, io)
        while entry:
            runs[entry["run"]] = entry["tokens"]
            key, entry = await journal.find(name, io)
        return cls(journal, name, key, runs)

    async def write(self, run: str, tokens: Spending, io: IO) -> None:
        """Write what the run of an agent has spent."""
        self.runs[run], key = tokens, self.key
        self.key, _ = await self.journal.find(self.request, io)
        await self.journal.write(key, {"run": run, "tokens": tokens}, io)


_NOTED: ContextVar[tuple[_Noted, ...]] = ContextVar("pb_graph_noted", default=())


def _journal() -> Journal | None:
    """Return the journal of the running node; None without a checkpointer."""
    try:
        saver = get_config()["configurable"].get(CONFIG_KEY_CHECKPOINTER)
        info = get_runtime().execution_info
    except (RuntimeError, KeyError):  # outside a graph
        return None
    return Journal(saver, info) if saver and info and info.checkpoint_id else None


def _output(spending: Spending) -> int:
    """Return the completion tokens of all models."""
    return sum(usage["output_tokens"] for usage in spending.values())


def _with_tokens_spent(result: Any, part: Budget) -> Any:  # noqa: ANN401 -- a message or a command
    """Return a tool's result with its cost, which replaces the count of a sub-agent."""
    spent = {"tokens_spent": _output(part.spending), "tokens_by_model": part.spending}
    if isinstance(result, ToolMessage):
        return Command(update={"messages": [result], **spent})
    if isinstance(result, Command) and result.graph is None and isinstance(result.update, dict):
        return replace(result, update={**result.update, **spent})
    return result
