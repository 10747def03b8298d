"""The graph: which node follows which. One serves every method; a baseline is a `Settings`."""

from __future__ import annotations

from pathlib import Path

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer, Send

from pb_graph.budget.shared import Budget
from pb_graph.models.caps import CapPolicy
from pb_graph.nodes.allocate import allocate, route_next_wave
from pb_graph.nodes.answer import answer
from pb_graph.nodes.estimate import estimate
from pb_graph.nodes.finish import finish
from pb_graph.nodes.intake import intake
from pb_graph.nodes.plan import plan
from pb_graph.nodes.review import review
from pb_graph.nodes.solve import solve
from pb_graph.nodes.synthesize import synthesize
from pb_graph.program import PlannerProgram
from pb_graph.runtime.edge import Edge
from pb_graph.runtime.node import Node
from pb_graph.runtime.registry import Model, ModelRegistry, Program
from pb_graph.settings import Context, Settings
from pb_graph.state import Input, Output, SolveTask, State


def build_graph(  # noqa: PLR0913 -- the parts of a graph, all but one by name
    model: Model = None,
    *,
    planner: Model = None,
    settings: Settings | None = None,
    planner_program: Program | None = None,
    checkpointer: Checkpointer = None,
    cap_policy: CapPolicy | None = None,
    shared_budget: Budget | None = None,
) -> CompiledStateGraph[State, Context, Input, Output]:
    """Compile the graph.

    Args:
        model: Solves: a chat model object, ``provider:model``, ``local:NAME`` or
            ``local:/path.gguf``. None means ``PB_MODEL``, else the local default if its extra is
            installed.
        planner: Plans and estimates; None for the same as ``model``.
        settings: Every other choice. None takes those that a tuned ``planner_program`` was
            measured with, else the defaults.
        planner_program: A tuned `Planner`, or what was saved of one: a `PlannerProgram` or its
            path.
        checkpointer: For threads and interrupts; leave it out when a host graph has one.
        cap_policy: How a token cap becomes the models' call arguments, when the one chosen by a
            model's class does not fit.
        shared_budget: A `Budget` that every query draws on, beside whatever else is given it. A
            question's own budget shrinks to what is left of it, and the report says so. Within an
            agent that has one, the agent's is found without being given.

    Returns:
        A graph that takes `Input` and gives `Output`, sync and async.

    Raises:
        ModelSetupError: A model cannot be made from what was given.
        PlannerProgramError: The saved planner does not fit this version.
    """
    if isinstance(planner_program, str | Path):
        planner_program = PlannerProgram.load(planner_program)
    if settings is None and isinstance(planner_program, PlannerProgram):
        settings = planner_program.settings
    registry = ModelRegistry(
        model, planner, settings or Settings(), planner_program, cap_policy, shared_budget
    )
    builder = StateGraph(State, context_schema=Context, input_schema=Input, output_schema=Output)
    builder.add_node("intake", Node(intake, registry, opens=True))
    for step in (plan, review, estimate, allocate, answer, synthesize, finish):
        builder.add_node(step.__name__, Node(step, registry))
    builder.add_node("solve", Node(solve, registry), input_schema=SolveTask)

    builder.add_edge(START, "intake")
    builder.add_conditional_edges("intake", Edge(_after_intake), ["plan", "estimate", "answer"])
    builder.add_conditional_edges("plan", Edge(_after_plan), ["review", "estimate", "answer"])
    builder.add_conditional_edges(
        "review", Edge(_after_review), ["allocate", "solve", "synthesize", "answer"]
    )
    builder.add_edge("estimate", "allocate")
    builder.add_conditional_edges(
        "allocate", Edge(_after_allocate), ["review", "solve", "synthesize", "answer"]
    )
    builder.add_edge("solve", "allocate")
    builder.add_edge("answer", "finish")
    builder.add_edge("synthesize", "finish")
    builder.add_edge("finish", END)
    return builder.compile(checkpointer=checkpointer, name="plan_and_budget")


def _after_intake(state: State) -> str:
    settings = Settings.model_validate(state["settings"])
    if settings.plans:
        return "plan"
    return "estimate" if settings.budgets else "answer"


def _after_plan(state: State) -> str:
    settings = Settings.model_validate(state["settings"])
    if settings.budgets:
        return "estimate"
    return "review" if settings.review_plan else "answer"


def _after_allocate(state: State) -> str | list[Send]:
    settings = Settings.model_validate(state["settings"])
    return "review" if settings.plans and settings.review_plan else route_next_wave(state)


def _after_review(state: State) -> str | list[Send]:
    """An edited plan has no budgets yet; an accepted one goes the way it would have gone."""
    settings = Settings.model_validate(state["settings"])
    return "allocate" if settings.budgets and state["budget"] is None else route_next_wave(state)


graph = build_graph()
"""The graph with default settings, for LangGraph Server; its model is made on first use."""
