"""Token budget middleware for LangChain agents."""
# ruff: noqa: ANN401 -- as LangChain's requests, and what its handlers return

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial, reduce
from typing import Annotated, Any, NotRequired, Self, cast, get_args
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, PrivateStateAttr
from langchain_core.messages import AIMessage, ToolMessage, message_to_dict, messages_from_dict
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command, Overwrite

from pb_graph.agents.call import Answer, CallLimits, Maker, Request, Response, charged, reserve_of
from pb_graph.budget.account import Budget, accounts_in_scope, open_run, use_budget
from pb_graph.budget.bill import add_spending, subtract_spending, whole_number
from pb_graph.errors import BudgetUsedUpError, InputError
from pb_graph.models.reply import ASYNC, BLOCKING, IO, run_sync
from pb_graph.run.resume import BudgetPause, Decision, Journal, OnUsedUp, pause_of, read_decision
from pb_graph.types import Spending

Handler = Callable[..., Any]
Result = ExtendedModelResponse[Any]
_LOCK = threading.Lock()
_MAX_RUNS = 1000  # accounts that a middleware keeps; abandoned runs count as well
_LOADED = uuid4().hex
_TOOL_LOGS: ContextVar[tuple[_Log, ...]] = ContextVar("pb_graph_tool_logs", default=())


class TokenBudgetState(AgentState[Any]):
    """State of `TokenBudgetMiddleware`; a resumed run continues from its checkpoint."""

    # The completion tokens, and all tokens by model, of this run and of the agents below it.
    tokens_spent: NotRequired[Annotated[int, operator.add]]
    tokens_by_model: NotRequired[Annotated[Spending, add_spending]]
    # In the budget's unit: the share of each tool call, what the last answer keeps, the total.
    budget_per_tool_call: NotRequired[Annotated[float, PrivateStateAttr]]
    budget_reserve: NotRequired[Annotated[float, PrivateStateAttr]]
    budget_total: NotRequired[Annotated[float, PrivateStateAttr]]
    token_budget_run: NotRequired[Annotated[str, PrivateStateAttr]]  # identity of this run


class BudgetedModelRequest(ModelRequest[Any]):
    """A request whose model is charged, also the one that another middleware puts in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        own = charged(value, vars(self.model)["_limits"]) if name == "model" else value
        super().__setattr__(name, own)

    def override(self, **changes: Any) -> Request:
        """Return a request with changes; another model is charged as that of this request."""
        if "model" in changes:
            changes["model"] = charged(changes["model"], vars(self.model)["_limits"])
        return super().override(**changes)


class _Log:
    """The log of a node that calls models, or of a tool call; a checkpointer keeps it."""

    def __init__(self, io: IO, tool_call: str | None = None) -> None:
        self._name = ["TokenBudgetMiddleware", tool_call]
        self._process = f"{_LOADED} {os.getpid()}"  # forks share the first, containers the second
        self.entries: list[dict[str, Any]] = []  # from before the node started over, and since
        self._key, self.journal = "", None  # the key is that of the next entry
        with suppress(RuntimeError, KeyError):  # outside a graph
            saver = get_config()["configurable"].get(CONFIG_KEY_CHECKPOINTER)
            info = get_runtime().execution_info
            if saver and info and info.checkpoint_id:
                self.journal = Journal(saver, info, io)

    async def read(self) -> Self:
        while self.journal:
            self._key, entry = await self.journal.find(self._name)
            if not entry:
                break
            self.entries.append(entry)
        return self

    async def add(self, account: Budget | None = None, **entry: Any) -> None:
        """Add an entry; of a call, with all spending so far, as an entry before it may be lost."""
        if account:
            entry |= {"tokens": account.spending, "total": account.total, "process": self._process}
        self.entries.append(entry)
        if self.journal:
            key = self._key
            self._key, _ = await self.journal.find(self._name)
            await self.journal.write(key, entry)

    async def once(self, account: Budget, run: str, request: str, make: Maker) -> AIMessage:
        """Return the reply that another process has paid for, once; else make the call."""
        for entry in self.entries:  # what this process repeats, as a retry, is made again
            is_elsewhere = entry["process"] != self._process
            if is_elsewhere and entry.get("reply") and entry["request"] == request:
                entry["request"] = None
                return cast("AIMessage", messages_from_dict([entry["reply"]])[0])
        before, reply = account.spending, None
        try:
            message = await make()
            reply = message_to_dict(message)
            return message
        finally:  # a call that was cancelled counts with its cap
            await self.add(account, request=request, reply=reply)
            if cost := subtract_spending(account.spending, before):
                for log in _TOOL_LOGS.get():  # a resumed tool asks no agent that ended
                    await log.add(run=run, tokens=cost)


class TokenBudgetMiddleware(AgentMiddleware[TokenBudgetState, Any]):
    """Limit the tokens or dollars of an agent, and of its sub-agents that have this middleware.

    When a call is truncated, or only the reserve is left, the model is asked once more, without
    tools, to finish. `tokens_spent` and `tokens_by_model` in the agent's output count the run.
    Retries of the provider's SDK, which cannot be counted, are off: use `ModelRetryMiddleware`.

    Args:
        budget: Completion tokens of each run, or a `Budget` that all runs with it spend together.
        per_call: Most completion tokens of a single call; needed if several runs share a `Budget`.
        reserve: Share of the budget reserved for the final answer.
        on_used_up: If only the reserve is left, ``"answer"`` asks for the final answer, ``"pause"``
            interrupts for a `BudgetDecision`, and ``"error"`` raises `BudgetUsedUpError`.
        tell_every: Rounds of tool calls between notes about the budget; 0: only in its last fifth.

    Raises:
        InputError: If an argument is out of its range.
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
        super().__init__()
        is_account = isinstance(budget, Budget)
        self.budget = budget if is_account else whole_number("budget", budget, minimum=2)
        cap = None if per_call is None else whole_number("per_call", per_call, minimum=1)
        if not 0 < reserve < 1:
            msg = f"reserve must lie between 0 and 1, not {reserve}"
            raise InputError(msg)
        if on_used_up not in get_args(OnUsedUp):
            msg = f"on_used_up must be one of {', '.join(get_args(OnUsedUp))}, not {on_used_up!r}"
            raise InputError(msg)
        every = whole_number("tell_every", tell_every, minimum=0)
        self._limits = CallLimits((), per_call=cap, reserve=reserve, tell_every=every)
        self.on_used_up = on_used_up
        self._runs: dict[str, Budget] = {}

    def before_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002
        """Start a new account. A resumed run keeps its account."""
        spent = {"tokens_spent": Overwrite(0), "tokens_by_model": Overwrite({})}
        return {**spent, "budget_total": 0.0, "token_budget_run": uuid4().hex}

    def after_agent(self, state: TokenBudgetState, runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """Close the run's account."""
        self._runs.pop(state.get("token_budget_run", ""), None)

    def wrap_model_call(self, request: Request, handler: Handler) -> Result:
        """Make one model call within the budget, and a second one if the first was truncated."""
        return run_sync(self.awrap_model_call(request, handler, BLOCKING))

    async def awrap_model_call(self, request: Request, handler: Handler, io: IO = ASYNC) -> Result:
        """Make one model call within the budget, and a second one if the first was truncated."""

        async def ask(request: Request, limits: CallLimits) -> Response:
            parts = vars(request) | {"model": charged(request.model, limits)}
            return cast("Response", await io.call(handler, handler, BudgetedModelRequest(**parts)))

        async def on_used_up(error: BudgetUsedUpError) -> Decision:
            if self.on_used_up == "error":
                raise error
            pause = pause_of(account, error, request.messages[-1].text if request.messages else "")
            await log.add(account, pause=pause)
            return await decide(pause)

        async def decide(pause: BudgetPause) -> Decision:
            is_new = "pause" in log.entries[-1]  # a node that starts over must not raise it again
            decision = read_decision(account, pause, is_new=is_new)
            if is_new:
                await log.add(account)
            return decision

        state: Mapping[str, Any] = request.state
        run, log = state.get("token_budget_run", ""), await _Log(io).read()
        account = self._account(state, log)
        once = partial(log.once, account, run) if log.journal else None
        limits = self._limits._replace(accounts=accounts_in_scope(account), once=once)
        asks = None if self.on_used_up == "answer" else on_used_up
        pauses = [entry["pause"] for entry in log.entries if "pause" in entry]
        decision = await decide(pauses[0]) if pauses else None
        response = await Answer(request, limits, ask, asks).respond(decision)
        calls = sum(len(m.tool_calls) for m in response.result if isinstance(m, AIMessage))
        new = subtract_spending(account.spending, state.get("tokens_by_model") or {})
        update = {"tokens_spent": _output(new), "tokens_by_model": new}
        update |= {"budget_total": account.total, "budget_reserve": account.kept}
        update |= {"budget_per_tool_call": account.left / max(1, calls)}
        return ExtendedModelResponse(response, Command(update=update))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Any:
        """Make a tool call; the agents that the tool runs share its part of the budget."""
        return run_sync(self.awrap_tool_call(request, handler, BLOCKING))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Handler, io: IO = ASYNC
    ) -> Any:
        """Make a tool call; the agents that the tool runs share its part of the budget."""
        log = await _Log(io, request.tool_call["id"]).read()
        runs: dict[str, Spending] = {}  # what was spent below, if the tool was cut off before
        for entry in log.entries:
            runs[entry["run"]] = add_spending(runs.get(entry["run"]), entry["tokens"])
            for run in entry.get("runs", ()):  # whose spending is among that of another run
                runs.setdefault(run, {})
        state, account = request.state, self._account(request.state)
        share = min(account.left, state.get("budget_per_tool_call", account.left))
        token = _TOOL_LOGS.set((*_TOOL_LOGS.get(), log))
        try:
            with account.limit(share if account.unit == "dollars" else int(share)) as part:
                for run, tokens in runs.items():
                    part.charge(tokens, run=run)
                with use_budget(part):
                    result = await io.call(handler, handler, request)
        except BaseException as stop:  # the run continues from its state, perhaps elsewhere
            known = reduce(add_spending, [entry["tokens"] for entry in log.entries], Spending())
            if rest := subtract_spending(part.spending, known):  # of models without a log
                part.charge({}, run=(run := uuid4().hex))
                await log.add(run=run, tokens=rest, runs=[*part.runs])
            if isinstance(stop, GraphInterrupt):
                self._runs.pop(state.get("token_budget_run", ""), None)
            raise
        finally:
            _TOOL_LOGS.reset(token)
        # The cost of the result replaces the count of a sub-agent.
        spent = {"tokens_spent": _output(part.spending), "tokens_by_model": part.spending}
        out = Command(update={"messages": [result]}) if isinstance(result, ToolMessage) else result
        if isinstance(out, Command) and out.graph is None and isinstance(out.update, dict):
            return replace(out, update=out.update | spent)
        return out

    def _account(self, state: Mapping[str, Any], log: _Log | None = None) -> Budget:
        """Return the account of a run: the existing one, else one that starts from the state."""
        run, earlier = state.get("token_budget_run", ""), state.get("tokens_by_model") or {}
        total = state.get("budget_total", 0)
        if log and log.entries:  # from before the node was cut off
            earlier = max(earlier, log.entries[-1]["tokens"], key=_output)
            total = max(total, log.entries[-1]["total"])
        enclosing = accounts_in_scope(self.budget if isinstance(self.budget, Budget) else None)
        with _LOCK:
            account = self._runs.get(run)  # also knows attempts that left no trace in the state
            is_elsewhere = account is not None and enclosing and account.parent is not enclosing[0]
            # Tools of this step have ended in another process. Enclosing tools know of them.
            is_behind = account is not None and _output(account.spending) < _output(earlier)
            if account is None or is_elsewhere or (is_behind and _TOOL_LOGS.get()):
                account = cast("Budget", open_run(self.budget, run=run, earlier=earlier))
                kept = state.get("budget_reserve") or reserve_of(account, self._limits.reserve)
                account.keep(kept)
                if run:
                    self._runs[run] = account
                if len(self._runs) > _MAX_RUNS:
                    del self._runs[next(iter(self._runs))]
            elif is_behind:
                account.charge(subtract_spending(earlier, account.spending))
            if total > account.total:
                account.raise_to(total)  # a decision in an earlier process raised it
            return account


def _output(spending: Spending) -> int:
    return sum(usage["output_tokens"] for usage in spending.values())
