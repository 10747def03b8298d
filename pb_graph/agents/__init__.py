"""Token budgets for LangChain agents and chat models, and the graph as a tool."""
