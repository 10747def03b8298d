"""Agents in tests: a task, a tool, replies that call tools, and an agent under a budget."""
# ruff: noqa: ANN401 -- agents, models and options of any kind

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, tool
from pydantic import BaseModel

from pb_graph import Budget, TokenBudgetMiddleware
from tests.support.chat_model import Reply

ASK: Any = {"messages": [HumanMessage("How many pens?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}


class Pens(BaseModel):
    """How many pens it buys."""

    number: int


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: seven words of text that mean nothing at all"


def tool_call(name: str, number: int = 1, /, **args: Any) -> Any:
    """Return the call of a tool, as a model asks for it."""
    return {"name": name, "args": args, "id": f"call-{number}", "type": "tool_call"}


def calls(name: str, times: int = 1, /, *, text: str = "off we go", **args: Any) -> Reply:
    """Return a reply that calls a tool so many times at once."""
    return Reply(text, tool_calls=[tool_call(name, number, **args) for number in range(times)])


def always(words: int, then: Any = "That is all.") -> Any:
    """Return a script that calls the tool, with so many words, as long as there are tools."""
    looks_up = calls("look_up", text="hm " * words, word="pen")
    return lambda call: looks_up if call.arguments.get("tools") else then


def agent_of(
    model: Any, budget: int | Budget, tools: Sequence[BaseTool] = (), **options: Any
) -> Any:
    """Return an agent under a budget; the options are those of the middleware."""
    return create_agent(model, [*tools], middleware=[TokenBudgetMiddleware(budget, **options)])
