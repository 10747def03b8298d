"""Plan a question, split its budget over the steps, and never spend more than its ceiling.

The graph judges the level of a question, plans it from level ``Settings.plan_from`` on, splits its
budget over the steps, and solves them. Below that level its plan is one step: the question itself.

The names below load on first use, so that importing the package imports no provider, no DSPy and
no LangGraph.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pb_graph.agents import (
        BudgetDecision,
        BudgetedChatModel,
        BudgetPause,
        TokenBudgetMiddleware,
        plan_and_budget_tool,
    )
    from pb_graph.budget.account import Budget
    from pb_graph.errors import (
        BudgetUsedUpError,
        InputError,
        ModelCallError,
        ModelSetupError,
        NoAnswerError,
        PlanAndBudgetError,
        PlannerProgramError,
        WeightsError,
    )
    from pb_graph.graph import build_graph
    from pb_graph.program import PlannerProgram
    from pb_graph.settings import Context, Settings
    from pb_graph.types import Report

    __version__: str

_HOMES = {
    "Budget": "budget.account",
    "BudgetDecision": "agents.middleware",
    "BudgetPause": "agents.middleware",
    "BudgetUsedUpError": "errors",
    "BudgetedChatModel": "agents.model",
    "Context": "settings",
    "InputError": "errors",
    "ModelCallError": "errors",
    "ModelSetupError": "errors",
    "NoAnswerError": "errors",
    "PlanAndBudgetError": "errors",
    "PlannerProgram": "program",
    "PlannerProgramError": "errors",
    "Report": "types",
    "Settings": "settings",
    "TokenBudgetMiddleware": "agents.middleware",
    "WeightsError": "errors",
    "build_graph": "graph",
    "plan_and_budget_tool": "agents.tool",
}

__all__ = [
    "Budget",
    "BudgetDecision",
    "BudgetPause",
    "BudgetUsedUpError",
    "BudgetedChatModel",
    "Context",
    "InputError",
    "ModelCallError",
    "ModelSetupError",
    "NoAnswerError",
    "PlanAndBudgetError",
    "PlannerProgram",
    "PlannerProgramError",
    "Report",
    "Settings",
    "TokenBudgetMiddleware",
    "WeightsError",
    "build_graph",
    "plan_and_budget_tool",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- whatever the name stands for
    if name == "__version__":
        return _installed_version()
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def _installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 -- takes a moment

    try:
        return version("plan-and-budget")
    except PackageNotFoundError:  # run from its sources
        return "unknown"


def __dir__() -> list[str]:
    return __all__
