"""Bound the input tokens of a call before the call is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from pb_graph.budget.rates import Bill, plain_name
from pb_graph.errors import InputError
from pb_graph.models.chat_models import key_of

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_PER_MESSAGE = 16  # tokens of the chat template, role and separators
_PER_REQUEST = 64  # of the template
_TOOLS = 600  # the instructions that providers add where there are tools
_IMAGE = 6_000
_SERVER_KEPT = ("previous_response_id", "conversation", "container")
_SENT = ("tools", "functions", "response_format", "output_config", "format")


def bound_input(
    model: BaseChatModel | str,
    messages: Sequence[BaseMessage],
    arguments: Mapping[str, Any] | None = None,
) -> Bill:
    """Return the most input tokens that a call can have, and its model, for `Budget.reserve`.

    A token is at least a byte in the tokenizers of today's models. Where the model reported the
    tokens of its last message, only what follows is bounded so.

    Args:
        model: The chat model, or its key as `key_of` returns it.
        messages: The prompt.
        arguments: The other arguments of the call, tools included.

    Raises:
        InputError: The provider adds input that cannot be seen here, such as a conversation that it
            keeps; or the prompt has sound, film or files.
    """
    arguments = dict(arguments or {})
    if getattr(model, "use_previous_response_id", None):
        arguments["previous_response_id"] = True
    key = model if isinstance(model, str) else key_of(model)
    kept = [name for name in _SERVER_KEPT if arguments.get(name)]
    if kept:
        msg = f"{kept[0]} adds a history that only the server knows, so its tokens have no bound. "
        msg += "Send the messages, or budget completion tokens."
        raise InputError(msg)
    tools = arguments.get("tools") or ()
    sent = [_schema(tool) for tool in tools]
    sent += [arguments[name] for name in _SENT[1:] if arguments.get(name) is not None]
    fixed = _PER_REQUEST + (_TOOLS if tools else 0) + sum(map(_bytes, sent))
    sizes = [_message_bound(message) for message in messages]
    most = fixed + sum(sizes)
    for number, message in reversed([*enumerate(messages)]):
        if known := _reported(message, plain_name(key)):
            system = sum(_message_bound(one) for one in messages if one.type == "system")
            most = min(most, known + fixed + system + sum(sizes[number + 1 :]))
            break
    return Bill(key, 0, most, 0, most)


def _schema(tool: Any) -> Any:  # noqa: ANN401 -- whatever LangChain takes as a tool
    """Return a tool as JSON; raise InputError for one that the provider runs."""
    if isinstance(tool, Mapping) and tool.get("type", "function") not in ("function", "custom"):
        msg = f"The provider runs the tool {tool['type']!r} and adds its results to the input, so "
        msg += "the tokens have no bound. Leave the tool out, or budget completion tokens."
        raise InputError(msg)
    return tool if isinstance(tool, Mapping) else convert_to_openai_tool(tool)


def _message_bound(message: BaseMessage) -> int:
    """Return a bound of a message's tokens."""
    content, images = message.content, 0
    said: list[Any] = []
    for block in [content] if isinstance(content, str) else content:
        kind = str(block.get("type", "")) if isinstance(block, dict) else ""
        if kind in ("audio", "input_audio", "video", "file", "document", "media"):
            msg = f"A prompt with {kind} has no bound of its tokens. Budget completion tokens."
            raise InputError(msg)
        if "image" in kind:
            images += 1
        else:
            said.append(block)
    if isinstance(message, AIMessage):
        said += [message.tool_calls, message.invalid_tool_calls]
    rest = _bytes([said, message.name, message.additional_kwargs])
    return _PER_MESSAGE + images * _IMAGE + rest


def _bytes(value: Any) -> int:  # noqa: ANN401 -- JSON
    return len(json.dumps(value, default=str, ensure_ascii=False).encode(errors="replace"))


def _reported(message: BaseMessage, name: str) -> int:
    """Return the tokens up to a message, as this model reported them; 0 if it did not."""
    usage = message.usage_metadata if isinstance(message, AIMessage) else None
    made_by = str(message.response_metadata.get("model_name") or "")
    if usage is None or not made_by.startswith(name):
        return 0
    return usage["input_tokens"] + usage["output_tokens"]
