"""Bound the input tokens of a call before the call is sent, and learn from calls that are settled.

The usage of a message tells the size of the prompt that it answered, which need not be the prompt
that it stands in now. So a size is known only for messages that were sent and settled here.
"""

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
from pb_graph.models.caps import policy_for
from pb_graph.models.options import (
    address_of,
    generic,
    is_cap,
    is_merged,
    is_openai_like,
    key_of,
    name_of,
    plain_field,
)

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
_SENT_NAMES = """
    functions responseformat responseschema responsejsonschema outputconfig format text jsonschema
    guidedjson guidedregex guidedgrammar guidedchoice grammar structuredoutputs chattemplate
    chattemplatekwargs instructions system
"""
_FREE_NAMES = """
    temperature topp topk minp typicalp seed stop stopsequences frequencypenalty presencepenalty
    repetitionpenalty repeatpenalty repeatlastn mirostat mirostateta mirostattau tfsz numctx numgpu
    numthread logitbias logprobs toplogprobs n bestof candidatecount ignoreeos mintokens
    skipspecialtokens stream streamoptions streamusage streaming disablestreaming timeout
    requesttimeout defaultrequesttimeout maxretries extraheaders extraquery headers keepalive
    toolchoice toolconfig paralleltoolcalls strict functioncall reasoning reasoningeffort
    reasoningformat reasoningconfig reasoningbudgettokens effort thinking thinkinglevel
    thinkingbudget thinkingconfig thinkingtokenbudget enablethinking includethoughts verbosity
    include store truncation metadata user safetyidentifier servicetier promptcachekey
    promptcacheoptions promptcacheretention cachecontrol cacheprompt responsemimetype
    responsemodalities safetysettings labels mediaresolution betas anthropicversion inferencegeo
    guardrailconfig performanceconfig requestmetadata continuefinalmessage addgenerationprompt
    provider usage lsstructuredoutputformat contextmanagement
"""
_MERGED_NAMES = """
    extrabody defaultbody modelkwargs httpoptions options parameters samplingparams
    generationconfig textgenerationconfig additionalmodelrequestfields
"""
_NAMES = (_SENT_NAMES, _FREE_NAMES, _MERGED_NAMES)
_SENT, _FREE, _MERGED = (frozenset(names.split()) for names in _NAMES)
_TEXT_BLOCKS = {
    *("text", "input_text", "output_text", "refusal", "thinking", "redacted_thinking"),
    *("reasoning", "reasoning_content", "tool_use", "tool_call", "tool_call_chunk"),
    *("invalid_tool_call", "function_call"),
}
_IMAGE_BLOCKS = {"image", "image_url", "input_image"}
_TOOL_FORMS = ("function", "name", "parameters", "properties")
_SURCHARGED = ("service_tier", "serviceTier", "inference_geo")
_MARGIN = 1.25  # over the most tokens per byte that were seen
_MIN_LEARNED = 400  # bytes: of shorter prompts, the template is too large a part
_MAX_PROMPTS = 10_000
_PLAIN = re.compile(r"(?<![A-Za-z])[A-Z]?[a-z]{1,15}(?![A-Za-z])| ")


def bound_input(
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    arguments: Mapping[str, Any] | None = None,
    *,
    is_learned: bool = True,
) -> Bill:
    """Return a bill with the largest possible input of a call, for `Budget.reserve`.

    OpenAI's models have a public tokenizer. For other models one token per byte is assumed, because
    a token of today's tokenizers has at least one byte, until settled calls of the same model and
    server show how many tokens a byte has. A beginning of the prompt that this process has sent
    before counts as it was reported.

    Args:
        model: The chat model.
        messages: The prompt.
        arguments: The other arguments of the call, tools included.
        is_learned: Whether settled calls count; otherwise each byte is a token.

    Raises:
        InputError: If the prompt or an argument is not known to have a bound: sound, files, tools
            that the provider runs, input that the provider stores.
    """
    arguments = arguments or {}
    sent, counter = _Sent.of(model, messages, arguments), _counter(model)
    count = counter or _bytes
    known, tokens = PROMPT_SIZES.known(sent, messages) if is_learned else (0, 0)
    if not known:
        tokens = (_TOOLS if sent.tools else 0) + sum(map(count, [*sent.tools, *sent.others]))
    parts = sent.parts[known:]
    tokens += sum(part.images for part in parts)
    sizes = sum(max(count(part.text), part.written) for part in parts)
    bound = tokens + _PER_REQUEST + _PER_MESSAGE * len(parts) + sizes
    if is_learned and counter is None:
        learned = PROMPT_SIZES.bound(sent.key, [part.text for part in parts], is_whole=not known)
        learned = max(learned, sum(part.written for part in parts))
        bound = min(bound, tokens + _PER_REPLY + _LEARNED_PER_MESSAGE * len(parts) + learned)
    said = "".join(part.text for part in sent.parts)
    said += _json([sent.tools, arguments.get("cache_control")])
    lasting = bound if '"1h"' in said else 0  # of a prompt cache
    given = vars(model), arguments, *(f.get("extra_body") or {} for f in (vars(model), arguments))
    tiers = (fields.get(name) for fields in given for name in _SURCHARGED)
    tier = next((f" ({tier})" for tier in tiers if tier in SURCHARGES), "")
    return Bill(sent.key + tier, input=bound, written=bound, lasting=lasting, is_measured=False)


def learn_input(
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    arguments: Mapping[str, Any],
    tokens: Bill,
) -> None:
    """Remember the size of a prompt, after the call is settled.

    A reply that is read again has not the tokens that it took to write: thinking is left out, and a
    tool call is written anew.

    Args:
        model: The chat model.
        messages: The prompt, as it was sent.
        arguments: The other arguments of the call, as for `bound_input`.
        tokens: The tokens of the call. Only measured tokens are remembered.
    """
    if tokens.is_measured:
        sent = _Sent.of(model, messages, arguments)
        PROMPT_SIZES.learn(sent, digests_of(messages, sent[:3])[-1], tokens.input)


def digests_of(messages: Sequence[BaseMessage], start: object = "") -> list[str]:
    """Return a digest of each beginning of a prompt, from its first message to the whole.

    Marks for a prompt cache do not count, because they move.

    Args:
        messages: The prompt.
        start: What stands before the messages, such as the tools.
    """
    running, digests = hashlib.sha256(repr(start).encode(errors="replace")), []
    for message in messages:
        content: Any = message.content
        if not isinstance(content, str):
            blocks = [{"text": part} if isinstance(part, str) else part for part in content]
            content = [{n: v for n, v in block.items() if n != "cache_control"} for block in blocks]
        calls = [getattr(message, name, None) for name in ("tool_calls", "tool_call_id")]
        parts = message.type, content, calls, message.additional_kwargs
        running.update(repr(parts).encode(errors="replace"))
        digests.append(running.hexdigest())
    return digests


class _Part(NamedTuple):
    """A message: its text, the tokens of its images, and those that it took to write."""

    text: str
    images: int
    written: int


class _Sent(NamedTuple):
    """A call as it is sent: its model, the tools, other texts, and a part for each message."""

    key: str
    tools: list[Any]
    others: list[Any]
    parts: list[_Part]

    @classmethod
    def of(
        cls, model: BaseChatModel, messages: Sequence[BaseMessage], given: Mapping[str, Any]
    ) -> _Sent:
        """Read a call; raise InputError if it sends something that has no bound."""
        key, tools = key_of(model), [_schema(tool) for tool in given.get("tools") or ()]
        return cls(key, tools, [*_texts(model, given)], [_part(each, key) for each in messages])


class _PromptSizes:
    """Sizes of prompts, as the settled calls of this process tell them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: OrderedDict[str, int] = OrderedDict()
        # The most tokens for a byte, the smallest share of bytes that are not plain words, and the
        # bytes of the smallest prompt, for each model.
        self._ratios: dict[str, tuple[float, float, int]] = {}

    def known(self, sent: _Sent, messages: Sequence[BaseMessage]) -> tuple[int, int]:
        """Return how many messages of a prompt have a known size, and their tokens."""
        sizes = [self._tokens.get(digest) for digest in digests_of(messages, sent[:3])]
        return next(
            ((n, sizes[n - 1] or 0) for n in range(len(sizes), 0, -1) if sizes[n - 1]), (0, 0)
        )

    def learn(self, sent: _Sent, digest: str, tokens: int) -> None:
        """Remember the tokens of a prompt, and those of a byte."""
        text = _json(([part.text for part in sent.parts], sent.tools, sent.others))
        size, odd = _bytes(text), _odd_bytes(text)
        with self._lock:
            self._tokens[digest] = tokens
            while len(self._tokens) > _MAX_PROMPTS:
                self._tokens.popitem(last=False)
            if size >= _MIN_LEARNED and not any(part.images for part in sent.parts):
                most, plain, smallest = self._ratios.get(sent.key, (0.0, 1.0, size))
                found = max(most, tokens / size), min(plain, odd / size), min(smallest, size)
                self._ratios[sent.key] = found

    def bound(self, key: str, texts: Sequence[str], *, is_whole: bool) -> int:
        """Return the most tokens that texts may have.

        A text of the kind that was seen has at most the tokens per byte that were seen, with a
        margin. Bytes of other kinds, such as digits and other scripts, count as a token each. A
        whole prompt has as many tokens for its template as the smallest prompt that was seen.
        """
        size = sum(map(_bytes, texts))
        if (seen := self._ratios.get(key)) is None:
            return size
        most, odd, smallest = seen
        ratio = min(1.0, most * _MARGIN)
        unlike = max(0.0, sum(map(_odd_bytes, texts)) - odd * size)
        return ceil(ratio * max(size, smallest if is_whole else 0) + (1 - ratio) * unlike)


PROMPT_SIZES = _PromptSizes()
"""The sizes of this process's prompts."""


def _texts(model: BaseChatModel, arguments: Mapping[str, Any]) -> Iterator[Any]:  # noqa: C901
    """Yield what is sent besides the messages and the tools; refuse what has no bound."""
    fields = vars(model)
    if found := _SEARCHING.search(name_of(model)):
        _refuse(f"A model whose name has {found[0]!r}")
    for given in (fields, arguments):
        if stored := [name for name in _STORED if given.get(name) not in (None, False)]:
            _refuse(stored[0])  # an empty object turns a search on
    yield fields.get("system", "")  # Bedrock's
    # The arguments of a class that is not known here may have any name.
    is_known = policy_for(model) is not generic
    sent = {**arguments, "tools": None}
    own = {name: value for name, value in fields.items() if plain_field(name) not in _FREE}
    bodies = [sent, *(value for name, value in own.items() if is_merged(name, value))]
    while bodies:
        body = bodies.pop()
        for name, value in body.items():
            plain = plain_field(name)
            if plain in _SENT:
                yield value
            elif name == "tools":
                yield [*map(_schema, value or ())]
            elif value in (None, False) or plain in _FREE or is_cap(name):
                continue
            elif plain in _MERGED and is_merged(name, value):
                bodies.append(value)
            elif is_known or body is not sent:
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


def _part(message: BaseMessage, key: str) -> _Part:
    """Return a message as it counts; raise InputError for one that has no bound."""
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
    return _Part(_json(parts), images * image, written)


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


def _odd_bytes(text: str) -> int:
    """Return the bytes of a text that are not plain words and spaces."""
    return _bytes(text) - sum(map(len, _PLAIN.findall(text)))


def _counter(model: BaseChatModel) -> Callable[[Any], int] | None:
    """Return a count of JSON in tokens, for a known model of OpenAI's own server; else None.

    The tokenizer files come with LiteLLM, which DSPy needs, so nothing is downloaded.
    """
    if not is_openai_like(model) or "//api.openai.com/" not in address_of(model):
        return None
    import tiktoken  # noqa: PLC0415 -- installed with the model's class

    if (litellm := find_spec("litellm")) and litellm.origin:
        files = Path(litellm.origin).parent / "litellm_core_utils/tokenizers"
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(files))
    try:
        encode = tiktoken.encoding_for_model(name_of(model)).encode  # which tiktoken keeps
    except (KeyError, OSError):
        return None
    return lambda value: len(encode(_json(value), disallowed_special=()))
