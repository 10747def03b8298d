"""Plan a question, split its budget across the steps, and never spend more than its limit.

The names below load on first use: importing the package imports no provider, DSPy or LangGraph.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pb_graph.agents.middleware import TokenBudgetMiddleware as TokenBudgetMiddleware
    from pb_graph.agents.model import BudgetedChatModel as BudgetedChatModel
    from pb_graph.agents.tool import plan_and_budget_tool as plan_and_budget_tool
    from pb_graph.budget.account import Budget as Budget
    from pb_graph.errors import BudgetUsedUpError as BudgetUsedUpError
    from pb_graph.errors import InputError as InputError
    from pb_graph.errors import ModelCallError as ModelCallError
    from pb_graph.errors import ModelSetupError as ModelSetupError
    from pb_graph.errors import NoAnswerError as NoAnswerError
    from pb_graph.errors import PlanAndBudgetError as PlanAndBudgetError
    from pb_graph.graph import build_graph as build_graph
    from pb_graph.planner.planner import Planner as Planner
    from pb_graph.program import PlannerProgram as PlannerProgram
    from pb_graph.run.resume import BudgetDecision as BudgetDecision
    from pb_graph.run.resume import BudgetPause as BudgetPause
    from pb_graph.settings import Context as Context
    from pb_graph.settings import Settings as Settings
    from pb_graph.types import Report as Report

__version__ = "0.1.0"

_NAMES = {
    "agents.middleware": "TokenBudgetMiddleware",
    "agents.model": "BudgetedChatModel",
    "agents.tool": "plan_and_budget_tool",
    "budget.account": "Budget",
    "errors": "BudgetUsedUpError InputError ModelCallError ModelSetupError NoAnswerError "
    "PlanAndBudgetError",
    "graph": "build_graph",
    "planner.planner": "Planner",
    "program": "PlannerProgram",
    "run.resume": "BudgetDecision BudgetPause",
    "settings": "Context Settings",
    "types": "Report",
}
_HOME_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605 -- a list


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- whatever the name stands for
    if name not in _HOME_OF:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
