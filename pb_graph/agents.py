"""For LangChain agents: the graph as a tool, and a token budget for any agent's own calls."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, cast

from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain.agents.middleware.types import (
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
)
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.pregel import Pregel
from langgraph.types import Command

from pb_graph.errors import InputError, NoAnswerError
from pb_graph.graph import build_graph
from pb_graph.models.caps import Limits, Thinking, constructor_overrides, policy_for
from pb_graph.models.usage import finish_of, tokens_of
from pb_graph.runtime.node import finished
from pb_graph.runtime.registry import Model
from pb_graph.state import Report

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


FINISH = "The token budget is nearly used up. Give your best final answer now, in brief."
DESCRIPTION = (
    "Works out a hard question step by step within a token budget, and returns the answer. "
    "Give the whole question: nothing else of the conversation is seen."
)


def plan_and_budget_tool(
    model_or_graph: Model | Pregel[Any, Any, Any, Any] = None,
    *,
    name: str = "plan_and_budget",
    description: str = DESCRIPTION,
    **options: Any,  # noqa: ANN401 -- those of build_graph
) -> BaseTool:
    """Make a tool of the graph; its artifact is the report.

    The agent's callbacks and configuration reach the graph, and an interrupt within the graph
    pauses the agent. A question that cannot be answered is told to the agent as text, with the
    report as the artifact all the same.

    Several calls in one turn run at once. When several of them pause, ``create_agent`` resumes each
    by itself; in a plain ``ToolNode`` they share one node, which may then answer some again.

    Args:
        model_or_graph: A compiled graph, or what `build_graph` takes as a model.
        name: What the agent calls the tool.
        description: What the agent reads about it.
        **options: The other arguments of `build_graph`.

    Raises:
        ModelSetupError: As `build_graph`.
        TypeError: Options were given with a graph that is already built.
    """
    if isinstance(model_or_graph, Pregel):
        if options:
            msg = f"a built graph takes no options, but {', '.join(options)} were given"
            raise TypeError(msg)
        graph: Pregel[Any, Any, Any, Any] = model_or_graph
    else:
        graph = build_graph(model_or_graph, **options)

    async def answered(out: Awaitable[dict[str, Any]]) -> tuple[str, Report | None]:
        try:
            done = await out
        except (InputError, NoAnswerError) as error:
            return str(error), getattr(error, "report", None)
        return done["answer"], done["report"]

    def solve(question: str, config: RunnableConfig) -> tuple[str, Report | None]:
        async def out() -> dict[str, Any]:
            return graph.invoke({"question": question}, config)

        return finished(answered(out()))

    async def asolve(question: str, config: RunnableConfig) -> tuple[str, Report | None]:
        return await answered(graph.ainvoke({"question": question}, config))

    return StructuredTool.from_function(
        solve,
        asolve,
        name=name,
        description=description,
        response_format="content_and_artifact",
    )


class TokenBudgetState(AgentState[Any]):
    """What the middleware adds to an agent's state: completion tokens spent in this run."""

    tokens_spent: NotRequired[Annotated[int, UntrackedValue]]


class TokenBudgetMiddleware(AgentMiddleware[TokenBudgetState, Any]):
    """Keeps an agent's own model calls within a total of completion tokens per run.

    Every call is capped by what is left. A reserve is kept back, so that the agent never stops
    half-way: a call that was cut off, or that has only the reserve left, is followed by, or
    becomes, one that has no tools and is told to answer now. From ``warn_at`` on the model is told
    how little is left. ``tokens_spent`` in the agent's output says what was spent; it counts the
    run, not the thread, and starts anew when an interrupted run is resumed.

    Args:
        total: Completion tokens of a run.
        per_call: Completion tokens of a single call; None for no limit but what is left.
        warn_at: Share of the total from which on the model is told.
        reserve: Share of the total kept back for the final answer.

    Raises:
        ValueError: A figure out of its range; it names the range.
    """

    state_schema = TokenBudgetState

    def __init__(
        self,
        total: int,
        *,
        per_call: int | None = None,
        warn_at: float = 0.8,
        reserve: float = 0.1,
    ) -> None:
        super().__init__()
        for name, value, least in (("total", total, 2), ("per_call", per_call, 1)):
            if value is not None and value < least:
                msg = f"{name} must be at least {least} tokens, not {value}"
                raise ValueError(msg)
        for name, share in (("warn_at", warn_at), ("reserve", reserve)):
            if not 0 < share < 1:
                msg = f"{name} must lie between 0 and 1, not {share}"
                raise ValueError(msg)
        self.total = total
        self.per_call = per_call
        self.warn_at = warn_at
        self.reserve = max(1, math.ceil(total * reserve))

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: TokenBudgetState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """End the run when a server that ignores its cap has used up even the reserve."""
        del runtime
        if state.get("tokens_spent", 0) < self.total:
            return None
        note = AIMessage(f"The budget of {self.total} tokens is used up.")
        return {"jump_to": "end", "messages": [note]}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Cap one call, and finish the answer if that cut it off."""

        async def call(request: ModelRequest[Any]) -> ModelResponse[Any]:
            return handler(request)

        return finished(self.awrap_model_call(request, call))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ExtendedModelResponse[Any]:
        """`wrap_model_call` for an event loop; at most two calls."""
        spent = cast("TokenBudgetState", request.state).get("tokens_spent", 0)
        partial = ""
        usable = self.total - spent - self.reserve
        if usable > 0:
            cap = min(usable, self.per_call or usable)
            ask = self._capped(self._warned(request, spent), cap)
            response = await handler(ask)
            spent += _cost(response, ask)
            if not _cut_off(response) or spent >= self.total:
                return _counted(response, spent)
            partial = " ".join(str(message.text) for message in _answers(response))
        ask = self._last(request, self.total - spent, partial)
        response = await handler(ask)
        return _counted(response, spent + _cost(response, ask))

    def _warned(self, request: ModelRequest[Any], spent: int) -> ModelRequest[Any]:
        if spent < self.warn_at * self.total:
            return request
        left = self.total - spent
        return _told(request, f"Only {left} tokens are left for this task: come to an end.")

    def _last(self, request: ModelRequest[Any], left: int, partial: str) -> ModelRequest[Any]:
        """The call that answers now: no tools, no more working."""
        bare = request.override(tools=[], tool_choice=None)
        cap = min(left, self.per_call or left)
        if partial:
            said = [*request.messages, AIMessage(partial), HumanMessage(FINISH)]
            return self._capped(bare.override(messages=said), cap, thinking="off")
        return self._capped(_told(bare, FINISH), cap, thinking="off")

    def _capped(
        self, request: ModelRequest[Any], cap: int, *, thinking: Thinking = "bounded"
    ) -> ModelRequest[Any]:
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


def _counted(response: ModelResponse[Any], spent: int) -> ExtendedModelResponse[Any]:
    return ExtendedModelResponse(response, Command(update={"tokens_spent": spent}))
