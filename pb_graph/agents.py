"""For LangChain agents: the graph as a tool, and token budgets for agents and for models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.pregel import Pregel
from pydantic import Field

from pb_graph.budget.around import checked, drawn_on, using, within_all
from pb_graph.budget.shared import Budget
from pb_graph.budgeted_model import BudgetedChatModel
from pb_graph.errors import InputError, NoAnswerError
from pb_graph.graph import build_graph
from pb_graph.middleware import TokenBudgetMiddleware
from pb_graph.runtime.node import finished
from pb_graph.runtime.registry import Model
from pb_graph.turn import FINISH
from pb_graph.types import Report

__all__ = ["FINISH", "BudgetedChatModel", "TokenBudgetMiddleware", "plan_and_budget_tool"]

DESCRIPTION = (
    "Works out a hard question step by step within a token budget, and returns the answer. "
    "Give the whole question: nothing else of the conversation is seen."
)


MostTokens = Annotated[
    int | None, Field(ge=1, description="Most tokens to spend; leave it out for a hard question.")
]


def plan_and_budget_tool(
    model_or_graph: Model | Pregel[Any, Any, Any, Any] = None,
    *,
    budget: Budget | None = None,
    name: str = "plan_and_budget",
    description: str = DESCRIPTION,
    **options: Any,  # noqa: ANN401 -- those of build_graph
) -> BaseTool:
    """Make a tool of the graph; its artifact is the report.

    Besides the question, an agent may give ``budget``: the most tokens that the call is worth to
    it, planning included.

    The agent's callbacks and configuration reach the graph, and an interrupt within the graph
    pauses the agent. A question that cannot be answered is told to the agent as text, with the
    report as the artifact all the same.

    Several calls in one turn run at once. When several of them pause, ``create_agent`` resumes each
    by itself; in a plain ``ToolNode`` they share one node, which may then answer some again.

    Args:
        model_or_graph: A compiled graph, or what `build_graph` takes as a model.
        budget: A `Budget` that every call draws on. Within an agent that has one, by its
            `TokenBudgetMiddleware`, the agent's is found without being given.
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

    shared = checked("budget", budget)

    async def answered(
        call: Callable[..., Any], question: str, config: RunnableConfig, budget: int | None
    ) -> tuple[str, Report | None]:
        try:
            with using(within_all(drawn_on(shared), budget)):
                out = call({"question": question}, config)
                done = await out if isinstance(out, Awaitable) else out
        except (InputError, NoAnswerError) as error:
            return str(error), getattr(error, "report", None)
        return done["answer"], done["report"]

    def solve(
        question: str, config: RunnableConfig, budget: MostTokens = None
    ) -> tuple[str, Report | None]:
        return finished(answered(graph.invoke, question, config, budget))

    async def asolve(
        question: str, config: RunnableConfig, budget: MostTokens = None
    ) -> tuple[str, Report | None]:
        return await answered(graph.ainvoke, question, config, budget)

    return StructuredTool.from_function(
        solve, asolve, name=name, description=description, response_format="content_and_artifact"
    )
