"""The graph as a tool for LangChain agents."""

from __future__ import annotations

from inspect import signature
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.pregel import Pregel
from pydantic import Field

from pb_graph.budget.account import Budget, open_run, use_budget
from pb_graph.errors import InputError, NoAnswerError
from pb_graph.graph import build_graph
from pb_graph.models.reply import ASYNC, BLOCKING, IO, run_sync
from pb_graph.run.parts import Model
from pb_graph.settings import Settings, require_limit
from pb_graph.types import Report

DESCRIPTION = (
    "Works out a question within a token budget that is never exceeded: judges how hard it is, "
    "plans it if it is hard, and returns the answer. "
    "Put everything into the question: the tool does not see the conversation."
)

Answer = tuple[str, Report | None]
_LIMIT = Field(ge=1, description="Maximum number of tokens to spend. Omit it for a hard question.")
TokenLimit = Annotated[int | None, _LIMIT]


def plan_and_budget_tool(
    model_or_graph: Model | Pregel[Any, Any, Any, Any] = None,
    *,
    limit: int | Budget | None = None,
    name: str = "plan_and_budget",
    description: str = DESCRIPTION,
    **options: Any,  # noqa: ANN401 -- those of build_graph
) -> BaseTool:
    """Create a tool that runs the graph; its artifact is the report.

    If a question cannot be answered, the agent gets the reason as text. The agent's callbacks and
    configuration reach the graph, and an interrupt within the graph pauses the agent.

    Args:
        model_or_graph: A compiled graph, or what `build_graph` takes as a model.
        limit: Completion tokens of each call, or a `Budget` of all calls, besides the agent's.
        name: The tool's name.
        description: Description of the tool for the agent.
        **options: The other arguments of `build_graph`.

    Returns:
        A tool that takes a question and, optionally, the most tokens that it is worth: ``limit``.

    Raises:
        InputError: If `limit` is neither a number nor a `Budget`, or an option is a setting.
        ModelSetupError: If a model cannot be made.
        TypeError: If options are given with a built graph.
    """
    own = require_limit("limit", limit)
    if isinstance(model_or_graph, Pregel):
        if options:
            msg = f"a built graph takes no options, but {', '.join(options)} were given"
            raise TypeError(msg)
        graph: Pregel[Any, Any, Any, Any] = model_or_graph
    else:
        known = signature(build_graph).parameters
        if named := (options.keys() & Settings.model_fields.keys()) - known.keys():
            given = ", ".join(f"{name}={options[name]!r}" for name in sorted(named))
            msg = f"{given} belongs into the settings: settings=Settings({given})."
            raise InputError(msg)
        graph = build_graph(model_or_graph, **options)

    async def asolve(
        question: str, config: RunnableConfig, limit: int | None = None, io: IO = ASYNC
    ) -> Answer:
        try:
            with use_budget(open_run(own, limit=limit)):
                out = await io.call(graph.invoke, graph.ainvoke, {"question": question}, config)
        except (InputError, NoAnswerError) as error:
            return str(error), getattr(error, "report", None)
        return out["answer"], out["report"]

    def solve(question: str, config: RunnableConfig, limit: TokenLimit = None) -> Answer:
        return run_sync(asolve(question, config, limit, BLOCKING))

    return StructuredTool.from_function(
        solve, asolve, name=name, description=description, response_format="content_and_artifact"
    )
