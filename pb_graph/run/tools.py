"""Tools that the solver may call while it works on a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp

from pb_graph.models.provider_errors import redact
from pb_graph.models.reply import IO
from pb_graph.run.resume import Journal
from pb_graph.tasks import ends_of

MAX_ROUNDS = 8  # calls of a step that may end in tool calls; the next has to give the result
LONG_TEXT = 24_000  # characters of a text that is sent whole only once for a step
MAX_RESULT = 20_000  # characters of a tool's result that the solver is shown


def without_tools(messages: Sequence[Any], *, shortened: bool) -> list[Any]:
    """Return a prompt with tool calls and results as text, for requests without tools.

    Of a very long text, which the model has read already, a `shortened` prompt has only the ends.
    """
    plain: list[Any] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            plain.append(HumanMessage(f"The result of {message.name}:\n{message.text}"))
        elif isinstance(message, AIMessage) and message.tool_calls:
            calls = ", ".join(f"{call['name']}({call['args']})" for call in message.tool_calls)
            plain.append(AIMessage(f"{message.text}\n(calls {calls})".strip()))
        elif shortened and isinstance(message, tuple) and len(message[1]) > LONG_TEXT:
            plain.append((message[0], ends_of(message[1], 4_000, 2_000)))
        else:
            plain.append(message)
    return plain


def without_system(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Return a prompt with its system message at the head of the first message after it."""
    if len(messages) < 2 or (messages[0].type, messages[1].type) != ("system", "human"):  # noqa: PLR2004
        return messages
    text, content = f"{messages[0].text}\n\n", messages[1].content
    joined: Any = text + content if isinstance(content, str) else [text, *content]
    return [HumanMessage(joined), *messages[2:]]


async def use_tools(
    tool_message: Mapping[str, Any], tools: Sequence[BaseTool], journal: Journal | None, io: IO
) -> list[BaseMessage]:
    """Call the tools that a message asks for, and return the message and their results."""
    message = AIMessage(**tool_message["data"])
    messages: list[BaseMessage] = [message]
    for call in message.tool_calls:
        key, text = await journal.find([call["name"], call["args"]]) if journal else ("", None)
        if text is None:
            text = await _call_tool(tools, call, io)
            if journal:
                await journal.write(key, text)
        messages.append(ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"]))
    for bad in message.invalid_tool_calls:  # APIs want a result for each
        note = f"{bad['name']} was not called: its arguments are no JSON"
        messages.append(ToolMessage(note, tool_call_id=bad["id"] or "", name=bad["name"]))
    return messages


async def _call_tool(tools: Sequence[BaseTool], call: ToolCall, io: IO) -> str:
    """Return the result of a tool as text of bounded size; its errors are told to the model."""
    tool = next((tool for tool in tools if tool.name == call["name"]), None)
    if tool is None:
        return f"There is no tool {call['name']!r}; there are: {', '.join(t.name for t in tools)}"
    try:
        result = await io.call(tool.invoke, tool.ainvoke, call)
    except GraphBubbleUp:  # an interrupt, which LangGraph handles
        raise
    except Exception as error:  # noqa: BLE001 -- the model can react to any error of a tool
        return redact(f"{type(error).__name__}: {error}"[:MAX_RESULT])
    text = result.text if isinstance(result, BaseMessage) else str(result)
    return text if len(text) <= MAX_RESULT else f"{text[:MAX_RESULT]} […]"
