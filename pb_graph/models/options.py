"""Describe one model call: its options, and the chat model, known by the names of its classes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from pb_graph.types import Purpose

Thinking = Literal["free", "low", "bounded", "off"]
"""The limit on thinking before an answer, for providers that let callers set one.

``free``: none, the cap is a safety net. ``low``: none, but OpenAI's models take the low effort, as
in the paper. ``bounded``: an answer must fit into the cap. ``off``: as little as is allowed.
"""

TIMEOUT = 120.0  # seconds of an attempt
# Thinking tokens of each level: low to high are from Google's Gemini API (OpenAI compatibility),
# and Anthropic's least thinking budget, 1,024, agrees. The others are our estimates.
_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
THINKING_TOKENS = dict(zip(_LEVELS, (0, 512, 1024, 8192, 24576, 32768, 65536), strict=True))
MIN_THINKING = THINKING_TOKENS["low"]  # with fewer, thinking is turned off

# Names of fields, as `plain_field` writes them: of caps, of numbers of answers, and of objects that
# are not merged into the body of a request, so that a name in them is no cap.
_CAP = re.compile(r"(n|num)predict|max(?!\w*(think|reason|input|prompt))\w*(tok|len)\w*")
_ANSWERS = re.compile(
    r"n|bestof|candidatecount|(n|num|numberof)(answers|candidates|choices|cmpl|completions"
    r"|generations|outputs|responses|results|returnsequences|samples)"
)
_CLOSED = re.compile(
    r"text|serialized|\w*(bias|client|format|grammar|header|json|metadata|profile|query|reason|schema"
    r"|structured|template|think|tool)\w*"
)
_REPLACING = {"inference_config", "inferenceConfig"}  # LangChain then drops its own cap

# Private names of LangChain's, used only through here.
calls_of = attrgetter("_generate_with_cache", "_agenerate_with_cache")
identity_of = attrgetter("_identifying_params")
llm_type_of = attrgetter("_llm_type")
ls_params_of = attrgetter("_get_ls_params")


class CallOptions(NamedTuple):
    """The options of one call."""

    cap: int  # completion tokens, reasoning included, of all attempts together
    timeout: float = TIMEOUT  # seconds of one attempt, unless the model has a time limit of its own
    schema: dict[str, Any] | None = None  # of the reply, where the server can enforce one
    thinking: Thinking = "bounded"
    tools: tuple[BaseTool, ...] = ()  # that the model may call
    purpose: Purpose = Purpose("answer")  # that the call is charged to
    sampling: bool = False  # so that several replies to one prompt differ
    continue_last: bool = False  # by the server, of a message that the model began
    stream: bool = False  # to a host that streams: the reply is part of the final answer

    @property
    def is_free(self) -> bool:
        """Return whether the cap is no reason to think less."""
        return self.thinking in {"free", "low"}

    @property
    def is_tight(self) -> bool:
        """Return whether an answer has to fit into the cap, and too little is left to think."""
        return self.thinking == "bounded" and self.thinking_room < MIN_THINKING

    @property
    def thinking_room(self) -> int:
        """Return the cap without what is left for the answer: a quarter, from 64 to 1,024."""
        answer = min(max(64, self.cap // 4), 1024)
        return 0 if self.thinking == "off" else max(0, self.cap - answer)


def name_of(model: BaseChatModel) -> str:
    """Return the provider's name of a model, or the name of its class."""
    names = ("model_name", "model", "model_id", "deployment_name")
    given = (getattr(model, name, None) for name in names)
    name = next((name for name in given if isinstance(name, str) and name), type(model).__name__)
    return name.removeprefix("models/")


def key_of(model: BaseChatModel) -> str:
    """Return a model's name with its provider, or with the address of another server."""
    if address_of(model):
        return describe_model(model)
    provider = ls_params_of(model)().get("ls_provider")  # as LangChain's tracers read it
    return f"{provider}:{name_of(model)}" if provider else name_of(model)


def describe_model(model: BaseChatModel) -> str:
    """Return a model's name and the address of its server, without user, password and query."""
    parts = urlsplit(address_of(model) or getattr(model, "base_url", None) or "")
    host = parts.netloc.rpartition("@")[2]
    return f"{name_of(model)} at {parts.scheme}://{host}{parts.path}" if host else name_of(model)


def classes_of(model: BaseChatModel) -> list[str]:
    """Return the names of a model's class and its base classes, such as ``langchain_x.ChatX``."""
    return [f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(model).__mro__]


def is_openai_like(model: BaseChatModel) -> bool:
    """Return whether a model is LangChain's client for OpenAI's protocol."""
    return "langchain_openai.BaseChatOpenAI" in classes_of(model)


def uses_responses(model: BaseChatModel) -> bool:
    """Return whether an OpenAI-like model calls the Responses API."""
    return bool(attrgetter("_use_responses_api")(model)({}))


def least_cap(model: BaseChatModel) -> int:
    """Return the smallest cap that a model's server takes: OpenAI's Responses API refuses 15."""
    return 16 if is_openai_like(model) and uses_responses(model) else 1


def address_of(model: BaseChatModel) -> str:
    """Return the base URL of an OpenAI-like model's server; empty for any other model."""
    if not is_openai_like(model):
        return ""
    settings: Any = model
    # The SDK below may have taken its address from OPENAI_BASE_URL, which the model does not show.
    client = settings.root_client or settings.root_async_client
    return str(getattr(client, "base_url", None) or settings.openai_api_base or "")


@lru_cache(maxsize=1024)  # the fields of a provider are few
def plain_field(name: str) -> str:
    """Return a field's name in small letters and without separators: ``topP`` is ``top_p``."""
    return re.sub("[_-]", "", name).lower()


@lru_cache
def is_cap(name: str) -> bool:
    """Return whether a field of this name limits the tokens of a reply."""
    return bool(_CAP.fullmatch(plain_field(name)))


def is_merged(name: str, value: object) -> bool:
    """Return whether a field may be merged into the body of a request at last."""
    return isinstance(value, Mapping) and not _CLOSED.fullmatch(plain_field(name))


def caps_in(fields: Mapping[str, Any], names: re.Pattern[str] = _CAP) -> list[int]:
    """Return the caps, or numbers of other names, in fields of a model or call, merged ones too."""
    numbers = list[int]()
    for name, value in fields.items():
        if is_merged(name, value):
            numbers += caps_in(value, names)
        elif isinstance(value, int | float) and value >= 1 and names.fullmatch(plain_field(name)):
            numbers.append(int(value))
    return numbers


def answers_in(fields: Mapping[str, Any]) -> int:
    """Return how many answers the fields of a model or of a call ask for at once."""
    return max(caps_in(fields, _ANSWERS), default=1)


def without_caps(fields: Mapping[str, Any], *, is_body: bool = False) -> dict[str, Any]:
    """Return the fields of a call without caps; those of a body also ask for one answer."""
    dropped = re.compile(f"{_CAP.pattern}|{_ANSWERS.pattern}") if is_body else _CAP
    return {
        name: without_caps(value, is_body=True) if is_merged(name, value) else value
        for name, value in fields.items()
        if name not in _REPLACING and not dropped.fullmatch(plain_field(name))
    }


def generic(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of any LangChain chat model, by the name of the field that its class declares."""
    return {next(filter(is_cap, type(model).model_fields), "max_tokens"): options.cap}


def describe_effort(arguments: Mapping[str, Any], options: CallOptions) -> str | None:
    """Return the reasoning effort that the arguments of a call ask for, and why; else None."""
    fields = {**arguments, **arguments.get("extra_body", {}), **arguments.get("output_config", {})}
    names = "reasoning_effort effort thinking_level thinking_token_budget reasoning_budget_tokens"
    for name in [*names.split(), "thinking", "reasoning"]:
        if (value := fields.get(name)) is not None:
            if isinstance(value, Mapping):
                value = value.get("effort") or value.get("type")
            room = f"{options.thinking_room} of {options.cap} tokens are left for thinking"
            return f"{name}={value}: {room}"
    return None


def copy_for_calls(model: BaseChatModel) -> BaseChatModel:
    """Return a copy of a chat model whose calls keep the caps in their arguments.

    A model that gives several answers at once gives one, as each could cost the cap. Its client
    never repeats a request, which may be billed and is not seen here. Each asynchronous call opens
    its own connection, because one that models share dies with its event loop.
    """
    fields: dict[str, Any] = vars(model)
    merged = {name: value for name, value in fields.items() if is_merged(name, value)}
    change = {name: value for name, value in without_caps(merged).items() if value != merged[name]}
    change |= {name: 1 for name in fields.keys() - merged if answers_in({name: fields[name]}) > 1}
    kinds = classes_of(model)
    if is_openai_like(model) or "langchain_aws.ChatBedrock" in kinds:
        change["max_tokens"] = None  # would replace that of a call
    if fields.get("stream_usage", "") is None:  # only of OpenAI's own server LangChain asks it
        change["stream_usage"] = True
    if "langchain_anthropic.ChatAnthropic" in kinds and (thinking := fields["thinking"]):
        kwargs = change.get("model_kwargs", fields["model_kwargs"]) | {"thinking": thinking}
        change |= {"thinking": None, "model_kwargs": kwargs}
    if "max_retries" in fields:  # Google's clients count attempts: 1 means no retries
        change["max_retries"] = int(any(kind.startswith("langchain_google") for kind in kinds))
        for side, headers in (("client", {}), ("async_client", {"Connection": "close"})):
            if sdk := getattr(model, f"root_{side}", None):
                sdk = sdk.with_options(max_retries=0, default_headers=headers)
                change |= {f"root_{side}": sdk, side: sdk.chat.completions}
    copy = model.model_copy(update=change)
    for kind in type(model).__mro__:  # clients that Anthropic's model cached in an earlier call
        for name in [name for name, own in vars(kind).items() if isinstance(own, cached_property)]:
            vars(copy).pop(name, None)
    return copy
