"""Bound the input tokens of a call before the call is sent."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.utils.function_calling import convert_to_openai_tool

from pb_graph.budget.bill import Bill, plain_name
from pb_graph.budget.rates import SURCHARGES
from pb_graph.errors import InputError
from pb_graph.local import server
from pb_graph.models.caps import MERGED, generic, is_cap, policy_for
from pb_graph.models.chat_models import address_of, is_openai_like, key_of, name_of
from pb_graph.models.prompt_sizes import PROMPT_SIZES, TextSize, digests_of

if TYPE_CHECKING:
    from tiktoken import Encoding

_PER_MESSAGE = 16  # tokens of the chat template, role and separators
_PER_REPLY, _LEARNED_PER_MESSAGE = 8, 4  # of these, what the bytes of a text do not cover
_PER_REQUEST = 64  # tokens of the template
_TOOLS = 600  # the instructions that providers add where there are tools
# The most tokens of an image, by the documents of the providers and, for OpenAI, by bills.
_IMAGES = (
    (r"gpt-4o-mini", 48_169),
    (r"gpt-4\.1-(mini|nano)|o4-mini|gpt-5-(mini|nano)|codex-mini", 4_000),
    (r"gpt-(5\.|6)", 25_000),
    (r"gpt-4o|chatgpt-4o|gpt-4-turbo|gpt-4\.[15]|gpt-5|o[13]|grok", 2_000),
    (r"claude", 5_000),
    (r"gemini-[123]", 7_000),
)
# Models that search by themselves, and read what they have found.
_SEARCHING = re.compile(r":online$|-search|deep-research|sonar|compound")
# Fields of models that add input which only the server knows.
_STORED = (
    *("use_previous_response_id", "previous_response_id", "conversation", "prompt", "container"),
    *("reuse_last_container", "cached_content", "mcp_servers", "raw_blocks", "user_profile_id"),
    *("web_search_options", "plugins"),
)
# Arguments of a call, and fields of a body, that are text of the prompt besides the messages.
_SENT_NAMES = """
    functions response_format response_schema response_json_schema output_config outputConfig
    format text json_schema guided_json guided_regex guided_grammar guided_choice grammar
    structured_outputs chat_template chat_template_kwargs instructions system
"""
# Those that are known to add no input. Any other is refused.
_FREE_NAMES = """
    temperature top_p topP top_k topK min_p typical_p seed stop stop_sequences stopSequences
    frequency_penalty presence_penalty repetition_penalty repeat_penalty repeat_last_n mirostat
    mirostat_eta mirostat_tau tfs_z num_ctx num_gpu num_thread logit_bias logprobs top_logprobs n
    best_of candidate_count ignore_eos min_tokens skip_special_tokens stream stream_options
    stream_usage streaming disable_streaming timeout request_timeout default_request_timeout
    max_retries extra_headers extra_query headers keep_alive tool_choice toolChoice tool_config
    parallel_tool_calls strict function_call reasoning reasoning_effort reasoning_format effort
    thinking thinking_level thinking_budget thinking_config thinking_token_budget enable_thinking
    include_thoughts reasoning_budget_tokens reasoningConfig verbosity include store truncation
    metadata user safety_identifier service_tier serviceTier prompt_cache_key prompt_cache_options
    prompt_cache_retention cache_control cache_prompt response_mime_type response_modalities
    safety_settings labels media_resolution betas anthropic_version inference_geo guardrail_config
    guardrailConfig performance_config performanceConfig request_metadata requestMetadata
    continue_final_message add_generation_prompt provider usage ls_structured_output_format
"""
_SENT, _FREE = frozenset(_SENT_NAMES.split()), frozenset(_FREE_NAMES.split())
_TEXT_BLOCKS = {
    *("text", "input_text", "output_text", "refusal", "thinking", "redacted_thinking"),
    *("reasoning", "reasoning_content", "tool_use", "tool_call", "tool_call_chunk"),
    *("invalid_tool_call", "function_call"),
}
_IMAGE_BLOCKS = {"image", "image_url", "input_image"}
_TOOL_FORMS = ("function", "name", "parameters", "properties")
_SURCHARGED = ("service_tier", "serviceTier", "inference_geo")
_BUSY = 2.0  # seconds to wait for a local server's tokenizer


def bound_input(
    model: BaseChatModel | str,
    messages: Sequence[BaseMessage],
    arguments: Mapping[str, Any] | None = None,
    *,
    is_learned: bool = True,
) -> Bill:
    """Return a bill with the largest possible input of a call, for `Budget.reserve`.

    A local model counts its prompts itself, and OpenAI's models have a public tokenizer. For other
    models one token per byte is assumed, because a token of today's tokenizers has at least one
    byte, until settled calls of the same model and server show how many tokens a byte has. A
    beginning of the prompt that this process has sent before counts as it was reported.

    Args:
        model: The chat model. A key from `key_of` counts in bytes.
        messages: The prompt.
        arguments: The other arguments of the call, tools included.
        is_learned: Whether settled calls count; otherwise each byte is a token.

    Raises:
        InputError: If the prompt or an argument is not known to have a bound: sound, files, tools
            that the provider runs, input that the provider stores.
    """
    arguments = dict(arguments or {})
    key, count = model if isinstance(model, str) else key_of(model), _counter(model)
    tools = [_schema(tool) for tool in arguments.get("tools") or ()]
    others = [*_texts(model, arguments)]
    fixed = (_TOOLS if tools else 0) + sum(map(count or _bytes, [*tools, *others]))
    known, tokens = 0, fixed
    if is_learned and (found := PROMPT_SIZES.known(digests_of(messages, [key, tools, others])))[0]:
        known, tokens = found
    parts = [_parts_of(message, key) for message in messages][known:]
    tokens += sum(images for _, images, _ in parts)
    sizes = [max((count or _bytes)(text), written) for text, _, written in parts]
    bound = tokens + _PER_REQUEST + _PER_MESSAGE * len(parts) + sum(sizes)
    if is_learned and count is None:
        size = TextSize.of("".join(text for text, *_ in parts))
        learned = PROMPT_SIZES.bound(key, size, is_whole=not known)
        learned = max(learned, sum(written for *_, written in parts))
        bound = min(bound, tokens + _PER_REPLY + _LEARNED_PER_MESSAGE * len(parts) + learned)
    body = {**arguments.get("extra_body", {}), "tools": tools}
    if counted := _count_locally(model, messages, body):
        bound = min(bound, counted + _PER_REQUEST + sum(map(count or _bytes, others)))
    sent = [message.content for message in messages], tools, arguments.get("cache_control")
    lasting = bound if '"1h"' in json.dumps(sent, default=str) else 0  # of a prompt cache
    if isinstance(model, BaseChatModel):
        settings = vars(model) | arguments
        key += next((f" ({settings[n]})" for n in _SURCHARGED if settings.get(n) in SURCHARGES), "")
    return Bill(key, input=bound, written=bound, lasting=lasting, is_measured=False)


def learn_input(
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    arguments: Mapping[str, Any],
    reply: AIMessage,
    tokens: Bill,
) -> None:
    """Remember the size of a prompt, after the call is settled.

    Args:
        model: The chat model.
        messages: The prompt, as it was sent.
        arguments: The other arguments of the call, as for `bound_input`.
        reply: The response.
        tokens: The tokens of the call. Only measured tokens are remembered.
    """
    if not tokens.is_measured:
        return
    key, parts = key_of(model), [_parts_of(message, key_of(model)) for message in messages]
    tools = [_schema(tool) for tool in arguments.get("tools") or ()]
    others = [*_texts(model, arguments)]
    *_, asked, answered = digests_of([*messages, reply], [key, tools, others])
    PROMPT_SIZES.add(asked, tokens.input)
    PROMPT_SIZES.add(answered, tokens.input + tokens.output)
    if not any(images for _, images, _ in parts):
        texts = [text for text, *_ in parts], tools, others
        PROMPT_SIZES.learn(key, TextSize.of(_json(texts)), tokens.input)


def _texts(model: BaseChatModel | str, arguments: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what is sent besides the messages and the tools; refuse what has no bound."""
    name, fields = (model, {}) if isinstance(model, str) else (name_of(model), vars(model))
    if found := _SEARCHING.search(name):
        _refuse(f"A model whose name has {found[0]!r}")
    for given in (fields, arguments):
        if stored := [name for name in _STORED if given.get(name) not in (None, False)]:
            _refuse(stored[0])  # an empty object turns a search on
    yield fields.get("system", "")  # Bedrock's
    # The arguments of a class that is not known here may have any name.
    is_known = not isinstance(model, str) and policy_for(model) is not generic
    sent = {name: arguments[name] for name in arguments if is_known or name in _SENT | MERGED}
    sent.pop("tools", None)
    bodies = [sent, *(fields.get(name) for name in MERGED)]
    while bodies:
        for name, value in (bodies.pop() or {}).items():
            if name in MERGED:
                bodies.append(value)
            elif name == "tools":
                yield [*map(_schema, value)]
            elif name in _SENT:
                yield value
            elif value not in (None, False) and name not in _FREE and not is_cap(name):
                _refuse(name)


def _schema(tool: Any) -> Any:  # noqa: ANN401 -- whatever LangChain takes as a tool
    """Return a tool as JSON; raise InputError for one that the provider may run."""
    if not isinstance(tool, Mapping):
        try:
            return convert_to_openai_tool(tool)
        except (ValueError, TypeError) as error:
            _refuse(f"The tool {type(tool).__name__}", error)
    kind = tool.get("type", "custom")
    has_form = any(name in tool for name in _TOOL_FORMS)
    is_ours = (kind in ("function", "object") and has_form) or (kind == "custom" and "name" in tool)
    is_declared = "toolSpec" in tool or tool.keys() <= {"function_declarations", "cachePoint"}
    if not (is_ours or is_declared):
        _refuse(f"The tool {tool.get('type') or next(iter(tool), '')!r}, which the provider runs,")
    return tool


def _parts_of(message: BaseMessage, key: str) -> tuple[str, int, int]:
    """Return the text of a message, the tokens of its images, and those that it took to write."""
    texts, images = _read(message.content)
    if message.additional_kwargs.get("audio"):
        _refuse("A prompt with 'audio'")
    name = plain_name(key)
    image = next((most for form, most in _IMAGES if re.search(rf"\b({form})", name)), 0)
    if images and not image:
        _refuse(f"An image for the model {name!r}")
    parts, written = [texts, message.name, message.additional_kwargs], 0
    if isinstance(message, AIMessage):
        parts += [message.tool_calls, message.invalid_tool_calls]
        usage = message.usage_metadata
        written = usage["output_tokens"] if usage else 0  # hidden reasoning may be sent back
    return _json(parts), images * image, written


def _read(content: Any) -> tuple[list[Any], int]:  # noqa: ANN401 -- text, or blocks
    """Return the texts of a content and the number of its images; refuse all other blocks."""
    texts, images = list[Any](), 0
    for part in [content] if isinstance(content, str) else content:
        block = {"type": "text", "text": part} if isinstance(part, str) else part
        kind = block.get("type", "")
        if kind in _IMAGE_BLOCKS:
            images += 1
        elif kind == "tool_result":
            inner, more = _read(block.get("content") or "")
            texts.append({**block, "content": inner})
            images += more
        elif kind in _TEXT_BLOCKS or (not kind and block.keys() <= {"text", "cachePoint"}):
            texts.append(block)
        else:
            _refuse(f"A prompt with {kind or next(iter(block), '')!r}")
    return texts, images


def _refuse(what: str, cause: Exception | None = None) -> NoReturn:
    msg = f"{what} has no known bound of its input. Leave it out, or budget completion tokens."
    raise InputError(msg) from cause


def _json(value: Any) -> str:  # noqa: ANN401
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _bytes(value: Any) -> int:  # noqa: ANN401
    return len(_json(value).encode(errors="replace"))


def _counter(model: BaseChatModel | str) -> Callable[[Any], int] | None:
    """Return a count of JSON in tokens, for a model of OpenAI's own server; else None."""
    if isinstance(model, str) or not is_openai_like(model):
        return None
    encoding = _encoding(name_of(model)) if "//api.openai.com/" in address_of(model) else None
    if encoding is None:
        return None
    return lambda value: len(encoding.encode(_json(value), disallowed_special=()))


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
