"""Token budgets for LangChain agents and chat models, and the graph as a tool."""

from pb_graph.agents.budgeted_request import FINISH
from pb_graph.agents.middleware import TokenBudgetMiddleware
from pb_graph.agents.model import BudgetedChatModel
from pb_graph.agents.tool import plan_and_budget_tool

__all__ = [
    "FINISH",
    "BudgetedChatModel",
    "TokenBudgetMiddleware",
    "plan_and_budget_tool",
]
