"""A token budget for the model calls of any LangChain agent, and of the agents below it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypeVar

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import (
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, Overwrite

from pb_graph.budget.shared import Budget, Call, drawn_on, newer, using, within_all
from pb_graph.errors import BudgetUsedUpError
from pb_graph.models.caps import Limits, Thinking, constructor_overrides, policy_for
from pb_graph.models.charging import settle_failed
from pb_graph.models.usage import finish_of, tokens_of
from pb_graph.runtime.node import finished

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime

R = TypeVar("R")

FINISH = "The token budget is nearly used up. Give your best final answer now, in brief."
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
    part left, is followed by, or becomes, one that has no tools and is told to answer now. From
    ``warn_at`` on the model is told how little is left. A call whose cost nobody knows (the
    connection broke, it was cancelled) counts with its whole cap.

    Sub-agents that have this middleware, too, with a number of their own or with the same
    `Budget`, draw on the budget of the agent that called them: tool calls of one turn have equal
    parts of what is left, and what one of them leaves returns. So does `plan_and_budget_tool`.
    Agents without the middleware are not capped.

    ``tokens_spent`` in the agent's output says what was spent; it counts the run, not the thread.
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
        self.total = total.total if isinstance(total, Budget) else total
        for name, value, least in (("total", self.total, 2), ("per_call", per_call, 1)):
            if value is not None and value < least:
                msg = f"{name} must be at least {least} tokens, not {value}"
                raise ValueError(msg)
        for name, share in (("warn_at", warn_at), ("reserve", reserve)):
            if not 0 < share < 1:
                msg = f"{name} must lie between 0 and 1, not {share}"
                raise ValueError(msg)
        self.per_call = per_call
        self.warn_at = warn_at
        self._share_kept = reserve
        self.reserve = max(1, math.ceil(self.total * reserve))

    def before_agent(self, state: TokenBudgetState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Open the account of a run; one that is resumed has it already."""
        del state, runtime
        account = within_all(drawn_on(self.budget), self.total)
        assert account  # noqa: S101 -- there is a total
        return {_ACCOUNT: Overwrite(account.snapshot()), _SPENT: Overwrite(0)}

    def after_agent(self, state: TokenBudgetState, runtime: Runtime[Any]) -> None:
        """Close the account of a run."""
        del runtime
        self._account(state).close()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Cap one call, and finish the answer if that cut it off."""

        async def call(request: ModelRequest[Any]) -> ModelResponse[Any]:
            return handler(request)

        return finished(_Turn(self, request, call, blocking=True).response())

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ExtendedModelResponse[Any]:
        """`wrap_model_call` for an event loop; at most two calls."""
        return await _Turn(self, request, handler, blocking=False).response()

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[..., Any]) -> Any:  # noqa: ANN401 -- as LangChain's
        """Let what a tool call runs draw on its part of the budget."""

        async def call(request: ToolCallRequest) -> Any:  # noqa: ANN401
            return handler(request)

        return finished(self.awrap_tool_call(request, call))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[..., Awaitable[Any]]
    ) -> Any:  # noqa: ANN401
        """`wrap_tool_call` for an event loop."""
        account = self._account(request.state)
        part = self._part(account, request)
        try:
            with using(part):
                result = await handler(request)
        except GraphInterrupt:  # goes on with the same part when it is resumed
            raise
        except BaseException:
            part.close()
            raise
        part.close()
        return _accounted(result, account)

    def kept(self, account: Budget) -> int:
        """Tokens that are kept back for the final answer."""
        return max(1, math.ceil(account.total * self._share_kept))

    def _account(self, state: Mapping[str, Any]) -> Budget:
        """The account of this run: the one that the state knows of, wherever that was written."""
        above = drawn_on(self.budget)
        if found := state.get(_ACCOUNT):
            return Budget.restore(found, above)
        account = within_all(above, self.total) or Budget(self.total)
        account.charge(state.get(_SPENT, 0))
        return account

    def _part(self, account: Budget, request: ToolCallRequest) -> Budget:
        """What one of a turn's tool calls may spend: as much as each of the others still to come.

        It is the same one when a call that paused is made once more.
        """
        last = next(m for m in reversed(request.state["messages"]) if isinstance(m, AIMessage))
        names = [f"{last.id}/{call['id']}" for call in last.tool_calls]
        name = f"{last.id}/{request.tool_call['id']}"
        return account.part(name, names, keep=self.kept(account))


class _Turn:
    """One turn of an agent: a call within what is left, and another to finish what it cut off."""

    def __init__(
        self,
        budget: TokenBudgetMiddleware,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
        *,
        blocking: bool,
    ) -> None:
        self._budget, self._request, self._handler = budget, request, handler
        self._blocking = blocking
        self._account = budget._account(request.state)  # noqa: SLF001 -- its own other half

    async def response(self) -> ExtendedModelResponse[Any]:
        try:
            response = await self._responded()
        except BudgetUsedUpError:
            note = AIMessage(f"The budget of {self._account.total} tokens is used up.")
            response = ModelResponse(result=[note])
        return ExtendedModelResponse(response, Command(update=_update(self._account)))

    async def _responded(self) -> ModelResponse[Any]:
        partial = ""
        kept = self._budget.kept(self._account)
        asked = self._warned(self._account.left)
        try:
            call = await self._reserved(keep=kept, at_least=kept)
        except BudgetUsedUpError:
            call = None
        if call:
            response = await self._called(asked, call)
            if not _cut_off(response) or self._account.left < 1:
                return response
            partial = " ".join(str(message.text) for message in _answers(response))
        call = await self._reserved(at_least=kept)
        return await self._called(self._last(partial), call, thinking="off")

    async def _reserved(self, *, keep: int = 0, at_least: int = 0) -> Call:
        most = self._budget.per_call
        if self._blocking:
            return self._account.reserve(most, keep=keep, at_least=at_least)
        return await self._account.areserve(most, keep=keep, at_least=at_least)

    async def _called(
        self, request: ModelRequest[Any], call: Call, *, thinking: Thinking = "bounded"
    ) -> ModelResponse[Any]:
        ask = _capped(request, call.tokens, thinking=thinking)
        with call:  # whoever cancels it leaves it unsettled
            try:
                response = await self._handler(ask)
            except Exception as error:
                settle_failed(call, error)
                raise
            call.settle(_cost(response, ask))
        return response

    def _warned(self, left: int) -> ModelRequest[Any]:
        if self._account.total - left < self._budget.warn_at * self._account.total:
            return self._request
        return _told(self._request, f"Only {left} tokens are left for this task: come to an end.")

    def _last(self, partial: str) -> ModelRequest[Any]:
        """The call that answers now: no tools, no more working."""
        bare = self._request.override(tools=[], tool_choice=None)
        if partial:
            said = [*self._request.messages, AIMessage(partial), HumanMessage(FINISH)]
            return bare.override(messages=said)
        return _told(bare, FINISH)


def _capped(request: ModelRequest[Any], cap: int, *, thinking: Thinking) -> ModelRequest[Any]:
    """The cap in the words of the request's own model."""
    policy = policy_for(request.model)
    change = constructor_overrides(request.model, policy)
    if "extra_body" in request.model_settings:  # the policy puts ours beside the model's own
        change["extra_body"] = request.model_settings["extra_body"]
    model = request.model.model_copy(update=change)
    arguments = policy(model, Limits(cap, timeout=math.inf, thinking=thinking))
    arguments.pop("timeout", None)  # the host's own business
    return request.override(model=model, model_settings=request.model_settings | arguments)


def _told(request: ModelRequest[Any], note: str) -> ModelRequest[Any]:
    """The request with a note at the end of its system message, which else stays as it is."""
    said = request.system_message
    if said is None:
        return request.override(system_message=SystemMessage(note))
    content: Any = said.content
    # Blocks may be marked for the provider's prompt cache: the note comes behind them.
    added = f"{content}\n\n{note}" if isinstance(content, str) else [*content, _block(note)]
    return request.override(system_message=said.model_copy(update={"content": added}))


def _block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _answers(response: ModelResponse[Any]) -> list[AIMessage]:
    return [message for message in response.result if isinstance(message, AIMessage)]


def _cost(response: ModelResponse[Any], ask: ModelRequest[Any]) -> int:
    """Completion tokens of a call, estimated where the server reports none."""
    return sum(tokens_of(message, ask.messages).output for message in _answers(response))


def _cut_off(response: ModelResponse[Any]) -> bool:
    """Whether the cap ended the call before it came to an answer or to a whole tool call."""
    return any(
        finish_of(message) == "length" and not message.tool_calls for message in _answers(response)
    )


def _update(account: Budget) -> dict[str, Any]:
    return {_ACCOUNT: account.snapshot(), _SPENT: account.spent}


def _accounted(result: Any, account: Budget) -> Any:  # noqa: ANN401 -- a message or a command
    """What a tool call gave, with the account after it; a sub-agent's own is not the caller's."""
    if isinstance(result, ToolMessage):
        return Command(update={"messages": [result], **_update(account)})
    if isinstance(result, Command) and result.graph is None and isinstance(result.update, dict):
        return Command(
            update={**result.update, **_update(account)}, goto=result.goto, resume=result.resume
        )
    return result
