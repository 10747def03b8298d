"""Bound the input tokens of a call before the call is sent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.utils.function_calling import convert_to_openai_tool

from pb_graph.budget.bill import Bill
from pb_graph.budget.rates import plain_name
from pb_graph.errors import InputError
from pb_graph.local import server
from pb_graph.models.chat_models import address_of, is_openai_like, key_of, name_of

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from tiktoken import Encoding

_PER_MESSAGE = 16  # tokens of the chat template, role and separators
_PER_REQUEST = 64  # tokens of the template
_TOOLS = 600  # the instructions that providers add where there are tools
_IMAGE = 6_000
_SERVER_KEPT = ("previous_response_id", "conversation", "container")
_SENT = ("functions", "response_format", "output_config", "format")  # sent besides the tools
_BUSY = 2.0  # seconds to wait for a local server's tokenizer


def bound_input(
    model: BaseChatModel | str,
    messages: Sequence[BaseMessage],
    arguments: Mapping[str, Any] | None = None,
) -> Bill:
    """Return a bill with the largest possible input of a call, for `Budget.reserve`.

    A local model counts its prompts itself, and OpenAI's models have a public tokenizer. For other
    models one token per byte is assumed, because a token of today's tokenizers has at least one
    byte. If the model reported the tokens of its last message, only later messages are counted.

    Args:
        model: The chat model. A key from `key_of` counts in bytes.
        messages: The prompt.
        arguments: The other arguments of the call, tools included.

    Raises:
        InputError: If the prompt has sound, film or files, or the provider adds stored input.
    """
    arguments = dict(arguments or {})
    if getattr(model, "use_previous_response_id", None):
        arguments["previous_response_id"] = True
    histories = [name for name in _SERVER_KEPT if arguments.get(name)]
    if histories:
        msg = f"{histories[0]} adds a history that only the server knows, so its tokens have no "
        msg += "bound. Send the messages, or budget completion tokens."
        raise InputError(msg)
    key, count = model if isinstance(model, str) else key_of(model), _counter(model)
    tools = [_schema(tool) for tool in arguments.get("tools") or ()]
    others = [arguments[name] for name in _SENT if arguments.get(name) is not None]
    fixed = _PER_REQUEST + (_TOOLS if tools else 0) + sum(map(count, [*tools, *others]))
    sizes = [_message_bound(message, count) for message in messages]
    bound = fixed + sum(sizes)
    for number, message in reversed([*enumerate(messages)]):
        if known := _reported(message, plain_name(key)):
            system = [_message_bound(other, count) for other in messages if other.type == "system"]
            bound = min(bound, known + fixed + sum(system) + sum(sizes[number + 1 :]))
            break
    body = {**arguments.get("extra_body", {}), "tools": tools}
    if counted := _count_locally(model, messages, body):
        bound = min(bound, counted + _PER_REQUEST + sum(map(count, others)))
    return Bill(key, input=bound, written=bound, is_measured=False)


def _schema(tool: Any) -> Any:  # noqa: ANN401 -- whatever LangChain takes as a tool
    """Return a tool as JSON; raise InputError for one that the provider runs."""
    if isinstance(tool, Mapping) and tool.get("type", "function") not in ("function", "custom"):
        msg = f"The provider runs the tool {tool['type']!r} and adds its results to the input, so "
        msg += "the tokens have no bound. Leave the tool out, or budget completion tokens."
        raise InputError(msg)
    return tool if isinstance(tool, Mapping) else convert_to_openai_tool(tool)


def _message_bound(message: BaseMessage, count: Callable[[Any], int]) -> int:
    content, images = message.content, 0
    parts: list[Any] = []
    for block in [content] if isinstance(content, str) else content:
        kind = str(block.get("type", "")) if isinstance(block, dict) else ""
        if kind in ("audio", "input_audio", "video", "file", "document", "media"):
            msg = f"A prompt with {kind} has no bound of its tokens. Budget completion tokens."
            raise InputError(msg)
        if "image" in kind:
            images += 1
        else:
            parts.append(block)
    if isinstance(message, AIMessage):
        parts += [message.tool_calls, message.invalid_tool_calls]
    return _PER_MESSAGE + images * _IMAGE + count([parts, message.name, message.additional_kwargs])


def _reported(message: BaseMessage, name: str) -> int:
    """Return the tokens up to a message, as this model reported them; 0 if it did not."""
    usage = message.usage_metadata if isinstance(message, AIMessage) else None
    made_by = str(message.response_metadata.get("model_name") or "")
    if usage is None or not made_by.startswith(name):
        return 0
    return usage["input_tokens"] + usage["output_tokens"]


def _counter(model: BaseChatModel | str) -> Callable[[Any], int]:
    """Return a count of JSON: in tokens for a model of OpenAI's own server, else in bytes."""
    encoding = None
    if not isinstance(model, str) and is_openai_like(model):
        encoding = _encoding(name_of(model)) if "//api.openai.com/" in address_of(model) else None

    def count(value: Any) -> int:  # noqa: ANN401
        text = json.dumps(value, default=str, ensure_ascii=False)
        if encoding:
            return len(encoding.encode(text, disallowed_special=()))
        return len(text.encode(errors="replace"))

    return count


@lru_cache
def _encoding(name: str) -> Encoding | None:
    """Return the tokenizer of a model of OpenAI; None if it is not known.

    The tokenizer files come with LiteLLM, which DSPy needs, so nothing is downloaded.
    """
    import tiktoken  # noqa: PLC0415 -- installed with the model's class

    if (litellm := find_spec("litellm")) and litellm.origin:
        files = Path(litellm.origin).parent / "litellm_core_utils/tokenizers"
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(files))
    with suppress(KeyError, OSError):
        return tiktoken.encoding_for_model(name)
    return None


def _count_locally(
    model: Any,  # noqa: ANN401
    messages: Sequence[BaseMessage],
    body: dict[str, Any],
) -> int:
    """Return the count of a model that this process serves, chat template included; else 0."""
    is_protocol = not isinstance(model, str) and is_openai_like(model)
    if not (is_protocol and server.is_served(address_of(model))):
        return 0
    from openai import OpenAIError  # noqa: PLC0415 -- installed with the model's class

    body["messages"] = convert_to_openai_messages(messages)
    with suppress(OpenAIError):
        path, options = "/chat/completions/input_tokens", {"timeout": _BUSY, "max_retries": 0}
        counted = model.root_client.post(path, cast_to=object, body=body, options=options)
        return int(counted["input_tokens"])
    return 0
