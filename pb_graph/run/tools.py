"""Tools that the solver may call while it works on a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
    messages_from_dict,
)
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp

from pb_graph.models.provider_errors import redact
from pb_graph.models.reply import IO
from pb_graph.run.journal import Journal

MAX_ROUNDS = 8
"""Calls of a step that may end in a call of tools; the next one has to give its result."""
MAX_RESULT = 20_000
"""Characters of a tool's result that the solver is shown."""


async def use_tools(
    asked: Mapping[str, Any], tools: Sequence[BaseTool], journal: Journal | None, io: IO
) -> list[BaseMessage]:
    """Call the tools that a reply asks for, one after another.

    Args:
        asked: The whole message of the model as JSON.
        tools: The tools that there are.
        journal: Keeps the results for a node that starts over.
        io: How to wait, `BLOCKING` or `ASYNC`.

    Returns:
        That message and the results, for the next prompt.
    """
    (message,) = messages_from_dict([dict(asked)])
    found: list[BaseMessage] = [message]
    for wanted in cast("AIMessage", message).tool_calls:
        call = partial(_call_tool, tools, wanted, io)
        key = [wanted["name"], wanted["args"]]
        text = await journal.once(key, call, io) if journal else await call()
        found.append(ToolMessage(text, tool_call_id=wanted["id"] or "", name=wanted["name"]))
    for broken in cast("AIMessage", message).invalid_tool_calls:  # APIs want a result for each
        said = f"{broken['name']} was not called: its arguments are no JSON"
        found.append(ToolMessage(said, tool_call_id=broken["id"] or "", name=broken["name"]))
    return found


def without_tools(messages: Sequence[Any]) -> list[Any]:
    """Return a prompt with tool calls and results as text, for requests without tools."""
    plain: list[Any] = []
    for said in messages:
        if isinstance(said, ToolMessage):
            plain.append(HumanMessage(f"The result of {said.name}:\n{said.text}"))
        elif isinstance(said, AIMessage) and said.tool_calls:
            calls = ", ".join(f"{call['name']}({call['args']})" for call in said.tool_calls)
            plain.append(AIMessage(f"{said.text}\n(calls {calls})".strip()))
        else:
            plain.append(said)
    return plain


async def _call_tool(tools: Sequence[BaseTool], call: ToolCall, io: IO) -> str:
    """Return the result of a tool as text of bounded size; its errors are told to the model."""
    wanted = next((one for one in tools if one.name == call["name"]), None)
    if wanted is None:
        return f"There is no tool {call['name']!r}; there are: {', '.join(t.name for t in tools)}"
    asked: dict[str, Any] = {**call, "type": "tool_call"}
    try:
        found = await io.call(wanted.invoke, wanted.ainvoke, asked)
    except GraphBubbleUp:  # an interrupt, which LangGraph handles
        raise
    except Exception as error:  # noqa: BLE001 -- the model can react to any error of a tool
        return redact(f"{type(error).__name__}: {error}"[:MAX_RESULT])
    text = found.text if isinstance(found, BaseMessage) else str(found)
    return text if len(text) <= MAX_RESULT else f"{text[:MAX_RESULT]} […]"
