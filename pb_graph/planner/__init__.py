"""Define the planner: its prompts, the reading of its replies, and its calls to a chat model."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from pb_graph.types import ReportWarning, SubQuestion

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph.state import CompiledStateGraph

__all__ = ["Planner", "QuestionPlan", "plan_question"]


class QuestionPlan(TypedDict):
    """The plan of a question that was not solved."""

    level: int | None
    steps: list[SubQuestion]
    shares: list[int]
    """Tokens of each step; empty for a method without shares."""
    tokens: int
    """Completion tokens that planning took."""
    warnings: list[ReportWarning]


def plan_question(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    question: str,
    level: int | None = None,
    config: RunnableConfig | None = None,
) -> QuestionPlan:
    """Run a graph up to its first solving call, to look at the plan.

    Args:
        graph: A graph from `build_graph`.
        question: The question.
        level: Its difficulty from 1 to 5; None to have it estimated.
        config: As for ``graph.invoke``; a graph with a checkpointer needs a thread.

    Raises:
        InputError: The question cannot be used.
    """
    found = graph.invoke(
        {"question": question} | ({} if level is None else {"level": level}),
        config,
        interrupt_before=["review", "answer", "solve"],
        output_keys=["query", "plan", "shares", "charges", "warnings"],
    )
    return {
        "level": found["query"]["level"],
        "steps": found["plan"],
        "shares": found["shares"],
        "tokens": sum(charge["output_tokens"] for charge in found["charges"]),
        "warnings": found["warnings"],
    }


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- the class
    if name != "Planner":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return import_module("pb_graph.planner.planner").Planner  # DSPy takes a second to import
