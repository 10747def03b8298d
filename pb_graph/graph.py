"""Connect the nodes. One graph serves every method; `Settings` select a baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer
from pydantic import BaseModel

from pb_graph.answers import AnswerType
from pb_graph.budget.account import Budget
from pb_graph.budget.bill import Dollars, Prices, spent
from pb_graph.errors import InputError
from pb_graph.models.caps import CapPolicy, known_policy
from pb_graph.nodes.allocate import allocate, review
from pb_graph.nodes.finish import finish, no_answer
from pb_graph.nodes.intake import intake
from pb_graph.nodes.plan import estimate, plan
from pb_graph.nodes.solve import answer, solve, synthesize
from pb_graph.program import PlannerProgram
from pb_graph.run.node import Node
from pb_graph.run.parts import GraphParts, Model, Program
from pb_graph.run.resume import OnUsedUp
from pb_graph.settings import ClassName, Context, Settings, require_limit
from pb_graph.state import Input, Output, SolveTask, State
from pb_graph.types import QuestionPlan


def build_graph(  # noqa: PLR0913 -- the parts of a graph, all but one by name
    model: Model = None,
    *,
    planner: Model = None,
    estimator: Model = None,
    easy: Model = None,
    settings: Settings | Mapping[str, Any] | None = None,
    planner_program: Program | None = None,
    checkpointer: Checkpointer = None,
    model_class: ClassName | None = None,
    cap_policy: CapPolicy | str | None = None,
    response_format: type[BaseModel] | None = None,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    prices: Prices | Literal["auto"] | None = None,
    limit: int | Budget | None = None,
    on_used_up: OnUsedUp = "answer",
) -> PlanAndBudgetGraph:
    """Compile the graph.

    Args:
        model: Solves: a chat model, ``provider:model``, ``local:NAME`` or ``local:/path.gguf``.
            None means ``PB_MODEL``, else the local default if its extra is installed.
        planner: Plans and estimates. None means ``model``.
        estimator: Estimates levels and credits. None means the planner.
        easy: Solves questions and sub-questions of level 1 or 2. None means ``model``.
        settings: `Settings` or its fields. None means those of ``planner_program`` or the defaults.
        planner_program: A tuned `Planner` or `optim.tuning.GraphProgram`, or a saved one as a
            `PlannerProgram` or the path of its file.
        checkpointer: For threads, interrupts and runs that are killed, unless a host graph has one:
            docs/recipes/durability.md.
        model_class: The class of ``model``: ``"small"``, ``"large"`` or ``"thinking"``. None finds
            the class by the name or the profile of the model, or by its first reply.
        cap_policy: The policy that turns a cap into call arguments, or its name, such as ``"vllm"``
            or ``"llama_cpp"``. None chooses a policy by the model's class.
        response_format: A pydantic model for the final answer. The output then has a
            ``structured_response``, as JSON; None if the answer does not fit the model.
        tools: LangChain tools, or functions with a docstring, that the solver may call. The tokens
            of tool calls count in the share of the step.
        prices: Dollars per million tokens of input, output and, as a third figure, cached input by
            model name: ``{"gpt-5-mini": (0.25, 2.0)}``; ``"auto"`` for the list of genai-prices.
            With prices, the report states the cost of the query.
        limit: The most that a run may cost, planning included: completion tokens for each run, or a
            `Budget` of any unit that all runs draw on. The budget of a question shrinks to the
            tokens that are left, with a warning. In an agent, the graph finds the agent's budget.
        on_used_up: Action when a `Budget` has less left than a question's budget. ``"answer"``
            gives the question the rest; ``"pause"`` interrupts the graph before solving, with a
            `BudgetPause`, until it is resumed with a `BudgetDecision`; ``"error"`` and the decision
            to stop raise `BudgetUsedUpError`.

    Returns:
        A graph that takes `Input` and gives `Output`, sync and async. Its ``plan`` and
        ``aplan`` return the plan of a question without solving it.

    Raises:
        ModelSetupError: If a model cannot be made.
        InputError: If an argument is wrong, or the saved planner does not fit this version.
    """
    if on_used_up not in get_args(OnUsedUp):
        msg = f"on_used_up must be one of {', '.join(get_args(OnUsedUp))}, not {on_used_up!r}"
        raise InputError(msg)
    if isinstance(planner_program, str | Path):
        planner_program = PlannerProgram.load(planner_program)
    own = getattr(planner_program, "settings", None) or {}
    chosen = Settings.read(own if settings is None else settings)
    if model_class is not None:
        chosen = Settings.read(chosen.set_fields() | {"model_class": model_class})
    parts = GraphParts(
        chosen,
        {"solver": model, "planner": planner, "estimator": estimator, "easy": easy},
        planner_program,
        known_policy(cap_policy),
        require_limit("limit", limit),
        None if prices is None else Dollars(prices),
        None if response_format is None else AnswerType(response_format),
        tuple(each if isinstance(each, BaseTool) else tool(each) for each in tools),
        on_used_up,
    )
    builder = StateGraph(State, context_schema=Context, input_schema=Input, output_schema=Output)
    nodes = (intake, plan, estimate, allocate, review, answer, solve, synthesize, finish, no_answer)
    for function in nodes:
        node = Node(function, parts, is_entry=function is intake)
        schema = SolveTask if function is solve else State
        ends = _NEXT_NODES.get(node.name, ())
        builder.add_node(node.name, node, destinations=ends, input_schema=schema)
    for source, end in _EDGES.items():
        builder.add_edge(source, end)
    compiled = builder.compile(checkpointer=checkpointer, name="plan_and_budget")
    return PlanAndBudgetGraph(**vars(compiled))  # as `CompiledStateGraph.copy` makes one


_EDGES = {START: "intake", "estimate": "allocate", "solve": "allocate"}
_EDGES |= {"answer": "finish", "synthesize": "finish", "no_answer": END}
_NEXT_NODES = {
    "intake": ("plan", "estimate", "answer"),
    "plan": ("estimate", "allocate", "review", "answer"),
    "allocate": ("review", "solve", "synthesize", "answer"),
    "review": ("allocate", "solve", "synthesize", "answer"),
    "finish": (END, "no_answer"),
}  # of each branching node; the settings of a run decide


class PlanAndBudgetGraph(CompiledStateGraph[State, Context, Input, Output]):
    """A compiled graph that can be asked for a plan alone."""

    def plan(
        self, question: str, level: int | None = None, config: RunnableConfig | None = None
    ) -> QuestionPlan:
        """Run the graph up to the first solving call, and return the plan.

        Args:
            question: The question.
            level: Its difficulty from 1 to 5; None to have it estimated.
            config: As for `invoke`; a graph with a checkpointer needs a thread.

        Raises:
            InputError: If the question is empty, or its level is not from 1 to 5.
        """
        asked: Any = {"question": question, "level": level}
        return _plan_of(self.invoke(asked, config, **_UP_TO_SOLVING))

    async def aplan(
        self, question: str, level: int | None = None, config: RunnableConfig | None = None
    ) -> QuestionPlan:
        """Return the plan of a question as `plan` does, in an event loop."""
        asked: Any = {"question": question, "level": level}
        return _plan_of(await self.ainvoke(asked, config, **_UP_TO_SOLVING))


_UP_TO_SOLVING: Any = {
    "interrupt_before": ["review", "answer", "solve"],
    "output_keys": ["settings", "query", "plan", "shares", "charges", "warnings"],
}


def _plan_of(state: Mapping[str, Any]) -> QuestionPlan:
    return {
        "level": state["query"]["level"],
        "steps": state["plan"],
        "shares": state["shares"],
        "synthesis": state["settings"]["synthesis"],
        "tokens": spent(state["charges"]),
        "warnings": state["warnings"],
    }


graph = build_graph()
"""The graph with default settings, for LangGraph Server; its model is made on first use."""
