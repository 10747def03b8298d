"""Bound the input tokens of a call before the call is sent, and learn from calls that are settled.

The usage of a message tells the size of the prompt that it answered, which need not be the prompt
that it stands in now. So a size is known only for messages that were sent and settled here.
"""
# ruff: noqa: ANN401 -- contents, tools and fields of models of any class

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from pb_graph.budget.bill import SURCHARGES, Bill, plain_name
from pb_graph.errors import InputError
from pb_graph.models.caps import POLICIES, policy_for
from pb_graph.models.options import address_of, is_cap, is_merged, key_of, name_of, plain_field

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
# Arguments of a call, and fields of a body, that are text of the prompt besides the messages; and
# those that are known to add no input or to be read as a part of the body. Any other is refused.
_SENT = re.compile(
    r"functions|response(format|(json)?schema)|outputconfig|format|text|jsonschema|grammar|system"
    r"|guided(json|regex|grammar|choice)|structuredoutputs|chattemplate(kwargs)?|instructions"
)
_FREE = re.compile(
    r"temperature|top(p|k|logprobs)|(min|typical)p|seed|stop(sequences)?|tfsz|mirostat(eta|tau)?"
    r"|(frequency|presence|repetition|repeat)penalty|repeatlastn|num(ctx|gpu|thread)|logitbias"
    r"|logprobs|n|bestof|candidatecount|ignoreeos|mintokens|skipspecialtokens|(disable)?streaming"
    r"|stream(options|usage)?|((default)?request)?timeout|maxretries|(extra)?headers|extraquery"
    r"|keepalive|tool(choice|config)|paralleltoolcalls|strict|functioncall|(reasoning)?effort"
    r"|reasoning(format|config|budgettokens)?|thinking(level|budget|config|tokenbudget)?"
    r"|enablethinking|includethoughts|verbosity|include|store|truncation|(request)?metadata|user"
    r"|safety(identifier|settings)|servicetier|promptcache(key|options|retention)|cachecontrol"
    r"|cacheprompt|response(mimetype|modalities)|labels|mediaresolution|betas|anthropicversion"
    r"|inferencegeo|(guardrail|performance)config|continuefinalmessage|addgenerationprompt"
    r"|provider|usage|lsstructuredoutputformat|contextmanagement"
)
_MERGED = re.compile(
    r"(extra|default)body|modelkwargs|(http)?options|parameters|samplingparams"
    r"|(text)?generationconfig|additionalmodelrequestfields"
)
_TEXT_BLOCKS = {
    *("text", "input_text", "output_text", "refusal", "thinking", "redacted_thinking"),
    *("reasoning", "reasoning_content", "tool_use", "tool_call", "tool_call_chunk"),
    *("invalid_tool_call", "function_call"),
}
_MARGIN = 1.25  # over the most tokens per byte that were seen
_MIN_LEARNED = 400  # bytes: of shorter prompts, the template is too large a part
_MAX_PROMPTS = 10_000
_PLAIN_WORDS = re.compile(r"(?<![A-Za-z])[A-Z]?[a-z]{1,15}(?![A-Za-z])| ")

# What the settled calls of this process tell: the input tokens of a prompt, by its digest; and, by
# model, the most tokens for a byte, the smallest share of bytes that are not plain words, and the
# bytes of the smallest prompt.
_sizes: OrderedDict[str, int] = OrderedDict()
_ratios: dict[str, tuple[float, float, int]] = {}
_lock = threading.Lock()


def bound_input(
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    arguments: Mapping[str, Any] = {},
    *,
    is_learned: bool = True,
) -> Bill:
    """Return a bill with the largest input that a call can have: docs/recipes/cost.md.

    Args:
        model: The chat model.
        messages: The prompt.
        arguments: The other arguments of the call, tools included.
        is_learned: Whether settled calls count; otherwise each byte is a token.

    Raises:
        InputError: If what is sent has no bound: sound, files, tools or input of the provider.
    """
    key, others, parts = _sent(model, messages, arguments)
    count = _counter(model)
    digests = digests_of(messages, (key, others)) if is_learned else []
    sizes = [(n, size) for n, digest in enumerate(digests, 1) if (size := _sizes.get(digest))]
    known, tokens = max(sizes, default=(0, 0))
    if not known:
        tokens = (_TOOLS if arguments.get("tools") else 0) + sum(map(count, others))
    new = parts[known:]
    tokens += sum(part.images for part in new)
    bound = tokens + _PER_REQUEST + _PER_MESSAGE * len(new)
    bound += sum(max(count(part.text), part.written) for part in new)
    if is_learned and count is _bytes:
        # Bytes of a kind that was seen, such as words, have at most the tokens that were seen, with
        # a margin. Others, such as digits, are a token each. The smallest prompt has a template.
        most, odd, smallest = _ratios.get(key, (1.0, 0.0, 0))
        ratio, size = min(1.0, most * _MARGIN), sum(_bytes(part.text) for part in new)
        unlike = max(0.0, sum(_odd_bytes(part.text) for part in new) - odd * size)
        learned = ceil(ratio * max(size, 0 if known else smallest) + (1 - ratio) * unlike)
        learned = max(learned, sum(part.written for part in new))
        bound = min(bound, tokens + _PER_REPLY + _LEARNED_PER_MESSAGE * len(new) + learned)
    shown = [*(part.text for part in parts), _json([others, arguments.get("cache_control")])]
    lasting = bound if '"1h"' in "".join(shown) else 0  # of a prompt cache
    given = vars(model), arguments, *(f.get("extra_body") or {} for f in (vars(model), arguments))
    surcharged = "service_tier", "serviceTier", "inference_geo"
    tiers = (fields.get(name) for fields in given for name in surcharged)
    tier = next((f" ({tier})" for tier in tiers if tier in SURCHARGES), "")
    return Bill(key + tier, input=bound, written=bound, lasting=lasting, is_measured=False)


def learn_input(
    model: BaseChatModel, messages: Sequence[BaseMessage], arguments: dict[str, Any], tokens: Bill
) -> None:
    """Remember the size of a prompt, after the call is settled.

    Args:
        model: The chat model.
        messages: The prompt, as it was sent.
        arguments: The other arguments of the call, as for `bound_input`.
        tokens: The tokens of the call. Only measured tokens are remembered.
    """
    if not tokens.is_measured:
        return
    key, others, parts = _sent(model, messages, arguments)
    text = _json(([part.text for part in parts], others))
    size, odd, digest = _bytes(text), _odd_bytes(text), digests_of(messages, (key, others))[-1]
    with _lock:
        _sizes[digest] = tokens.input
        if len(_sizes) > _MAX_PROMPTS:
            _sizes.popitem(last=False)
        if size >= _MIN_LEARNED and not any(part.images for part in parts):
            most, plain, least = _ratios.get(key, (0.0, 1.0, size))
            _ratios[key] = max(most, tokens.input / size), min(plain, odd / size), min(least, size)


def digests_of(messages: Sequence[BaseMessage], start: object = "") -> list[str]:
    """Return a digest of each beginning of a prompt, from its first message to the whole.

    Args:
        messages: The prompt.
        start: What stands before the messages, such as the tools.
    """
    running, digests = hashlib.sha256(repr(start).encode(errors="replace")), []
    for message in messages:
        content: Any = message.content
        if not isinstance(content, str):
            blocks = [{"text": part} if isinstance(part, str) else part for part in content]
            # Marks for a prompt cache move.
            content = [{n: v for n, v in block.items() if n != "cache_control"} for block in blocks]
        calls = [getattr(message, name, None) for name in ("tool_calls", "tool_call_id")]
        parts = message.type, content, calls, message.additional_kwargs
        running.update(repr(parts).encode(errors="replace"))
        digests.append(running.hexdigest())
    return digests


class _Part(NamedTuple):
    text: str  # of a message
    images: int  # tokens of its images
    written: int  # tokens that it took to write


def _sent(
    model: BaseChatModel, messages: Sequence[BaseMessage], given: Mapping[str, Any]
) -> tuple[str, list[Any], list[_Part]]:
    """Return the key of a model, what is sent besides the messages, and a part for each message."""
    key, others, parts = key_of(model), [*_texts(model, given)], list[_Part]()
    name = plain_name(key)
    image = next((most for form, most in _IMAGES if re.search(rf"\b({form})", name)), 0)
    for message in messages:
        texts, images = _read(message.content)
        if message.additional_kwargs.get("audio"):
            _refuse("A prompt with 'audio'")
        if images and not image:
            _refuse(f"An image for the model {name!r}")
        text, written = [texts, message.name, message.additional_kwargs], 0
        if isinstance(message, AIMessage):
            text += [message.tool_calls, message.invalid_tool_calls]
            usage = message.usage_metadata
            written = usage["output_tokens"] if usage else 0  # hidden reasoning may be sent back
        parts.append(_Part(_json(text), images * image, written))
    return key, others, parts


def _texts(model: BaseChatModel, arguments: Mapping[str, Any]) -> Iterator[Any]:  # noqa: C901
    """Yield what is sent besides the messages; raise InputError for what has no bound."""
    fields = vars(model)
    if found := _SEARCHING.search(name_of(model)):
        _refuse(f"A model whose name has {found[0]!r}")
    for given in (fields, arguments):
        if stored := [name for name in _STORED if given.get(name) not in (None, False)]:
            _refuse(stored[0])  # an empty object turns a search on
    yield fields.get("system", "")  # Bedrock's
    # The arguments of a class that is not known here may have any name.
    is_known = policy_for(model) is not POLICIES["generic"]
    own = {name: value for name, value in fields.items() if not _FREE.fullmatch(plain_field(name))}
    bodies = [arguments, *(value for name, value in own.items() if is_merged(name, value))]
    while bodies:
        body = bodies.pop()
        for name, value in body.items():
            plain = plain_field(name)
            if _SENT.fullmatch(plain):
                yield value
            elif name == "tools":
                yield [*map(_schema, value or ())]
            elif value in (None, False) or _FREE.fullmatch(plain) or is_cap(name):
                continue
            elif _MERGED.fullmatch(plain) and is_merged(name, value):
                bodies.append(value)
            elif is_known or body is not arguments:
                _refuse(name)


def _schema(tool: Any) -> Any:
    """Return a tool as JSON; raise InputError for one that the provider may run."""
    if not isinstance(tool, Mapping):
        try:
            return convert_to_openai_tool(tool)
        except (ValueError, TypeError):  # such as a tool object of a provider's SDK
            _refuse(f"The tool {type(tool).__name__}")
    kind = tool.get("type", "custom")
    has_form = not tool.keys().isdisjoint(("function", "name", "parameters", "properties"))
    is_ours = (kind in ("function", "object") and has_form) or (kind == "custom" and "name" in tool)
    is_declared = "toolSpec" in tool or tool.keys() <= {"function_declarations", "cachePoint"}
    if not (is_ours or is_declared):
        _refuse(f"The tool {tool.get('type') or next(iter(tool), '')!r}, which the provider runs,")
    return tool


def _read(content: Any) -> tuple[list[Any], int]:
    """Return the texts of a content and the number of its images; refuse all other blocks."""
    texts, images = list[Any](), 0
    for part in [content] if isinstance(content, str) else content:
        block = {"type": "text", "text": part} if isinstance(part, str) else part
        kind = block.get("type", "")
        if kind in {"image", "image_url", "input_image"}:
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


def _refuse(what: str) -> NoReturn:
    msg = f"{what} has no known bound of its input. Leave it out, or budget completion tokens."
    raise InputError(msg)


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _bytes(value: Any) -> int:
    return len(_json(value).encode(errors="replace"))


def _odd_bytes(text: str) -> int:
    return _bytes(text) - sum(map(len, _PLAIN_WORDS.findall(text)))


def _counter(model: BaseChatModel) -> Callable[[Any], int]:
    """Return a count of JSON: in tokens for a known model of OpenAI's own server, else in bytes."""
    if "//api.openai.com/" not in address_of(model):
        return _bytes
    import tiktoken  # noqa: PLC0415 -- installed with the model's class

    # LiteLLM, which DSPy needs, brings the tokenizer files, so that nothing is downloaded.
    if (litellm := find_spec("litellm")) and litellm.origin:
        files = Path(litellm.origin).parent / "litellm_core_utils/tokenizers"
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(files))
    try:
        encode = tiktoken.encoding_for_model(name_of(model)).encode  # which tiktoken keeps
    except (KeyError, OSError):
        return _bytes
    return lambda value: len(encode(_json(value), disallowed_special=()))
