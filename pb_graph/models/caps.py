"""Map the cap of a call to the arguments of its provider, one function for each provider.

The caller's own settings are kept unless they cannot fit into the cap. Levels and ranges are those
of the providers' documents; no provider's package is imported here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel

from pb_graph.local import server
from pb_graph.models import chat_models
from pb_graph.models.chat_models import address_of, classes_of, is_openai_like, uses_responses
from pb_graph.models.options import CallOptions
from pb_graph.models.provider_errors import status_of

CapPolicy = Callable[[BaseChatModel, CallOptions], dict[str, Any]]
"""Turns a model and the options of a call into the call's arguments, with at least its cap."""

_CAP = re.compile(r"(n|num)predict|max(?!\w*(think|reason|input|prompt))\w*(tok|len)\w*")
_ANSWERS = {"n", "ncmpl", "bestof", "candidatecount", "numreturnsequences"}
MERGED = {
    *("extra_body", "model_kwargs", "http_options", "options", "parameters", "sampling_params"),
    *("generation_config", "generationConfig", "textGenerationConfig"),
    *("additional_model_request_fields", "additionalModelRequestFields"),
}
"""Fields of a model, of a call or of a body whose content is merged into the body at last."""
_WITHOUT_STREAM_OPTIONS: set[str] = set()
_REPLACING = {"inference_config", "inferenceConfig"}  # LangChain then drops its own cap

# Thinking tokens of each level: low to high are from Google's Gemini API (OpenAI compatibility),
# and Anthropic's least thinking budget, 1,024, agrees. The others are our estimates.
_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
THINKING_TOKENS = dict(zip(_LEVELS, (0, 512, 1024, 8192, 24576, 32768, 65536), strict=True))
MIN_THINKING = THINKING_TOKENS["low"]
"""The fewest tokens for thinking. With fewer, thinking is turned off."""

_EFFORTS = (
    *("reasoning_effort", "effort", "thinking_level", "thinking_token_budget"),
    *("reasoning_budget_tokens", "thinking", "reasoning"),
)


def policy_for(model: BaseChatModel) -> CapPolicy:
    """Return the policy that fits a chat model, by its classes and the address of its server."""
    kinds = classes_of(model)
    if not is_openai_like(model):
        return next((_BY_CLASS[kind] for kind in kinds if kind in _BY_CLASS), generic)
    host = urlsplit(address_of(model)).hostname or ""  # empty for OpenAI's own by default
    is_azure = "langchain_openai.AzureChatOpenAI" in kinds
    if is_azure or not host or host.endswith(("api.openai.com", "openai.azure.com")):
        return openai
    if host.endswith("deepseek.com"):
        return deepseek
    return llama_cpp if server.is_served(address_of(model)) else openai_compatible


def constructor_overrides(model: BaseChatModel) -> dict[str, Any]:
    """Return the fields to change in a copy of a model, so that the arguments of a call win."""
    settings: Any = model
    merged = {name: vars(model)[name] for name in MERGED & vars(model).keys()}
    change = {name: value for name, value in without_caps(merged).items() if value != merged[name]}
    if is_openai_like(model):
        change["max_tokens"] = None
        if settings.stream_usage is None:  # only for OpenAI's own server LangChain asks for it
            change["stream_usage"] = chat_models.key_of(model) not in _WITHOUT_STREAM_OPTIONS
    if "langchain_aws.ChatBedrock" in classes_of(model):
        change["max_tokens"] = None  # would replace that of a call
    if _CLAUDE in classes_of(model) and settings.thinking is not None:
        kwargs = change.get("model_kwargs", settings.model_kwargs) | {"thinking": settings.thinking}
        change |= {"thinking": None, "model_kwargs": kwargs}
    return change


def refuses_stream_options(model: BaseChatModel, error: Exception) -> bool:
    """Return whether a call failed because its server takes no `stream_options`, and note that."""
    is_named = status_of(error) in (400, 422) and "stream_options" in str(error)
    if is_refused := is_named and bool(getattr(model, "stream_usage", False)):
        _WITHOUT_STREAM_OPTIONS.add(chat_models.key_of(model))
    return is_refused


def caps_in(fields: Mapping[str, Any]) -> list[int]:
    """Return the caps among the fields of a model or of a call, and in what they merge."""
    return [int(value) for name, value in _numbers_in(fields) if is_cap(name)]


def is_cap(name: str) -> bool:
    """Return whether a field of this name limits the tokens of a reply."""
    return bool(_CAP.fullmatch(_plain(name)))


def answers_in(fields: Mapping[str, Any]) -> int:
    """Return how many answers the fields of a model or of a call ask for at once."""
    return max((int(value) for name, value in _numbers_in(fields) if name in _ANSWERS), default=1)


def without_caps(fields: Mapping[str, Any], *, is_body: bool = False) -> dict[str, Any]:
    """Return the fields of a call without caps; those of a body also ask for one answer."""
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _REPLACING or is_cap(name) or (is_body and _plain(name) in _ANSWERS):
            continue
        is_merged = name in MERGED and isinstance(value, Mapping)
        kept[name] = without_caps(value, is_body=True) if is_merged else value
    return kept


def _numbers_in(fields: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in fields.items():
        if isinstance(value, Mapping) and name in MERGED | _REPLACING:
            yield from _numbers_in(value)
        elif isinstance(value, int | float) and value >= 1:
            yield _plain(name), value


def _plain(name: str) -> str:
    return re.sub("[_-]", "", name).lower()


def describe_effort(arguments: Mapping[str, Any], options: CallOptions) -> str | None:
    """Return the reasoning effort that the arguments of a call ask for, and why; else None."""
    fields = {**arguments, **arguments.get("extra_body", {}), **arguments.get("output_config", {})}
    for name in _EFFORTS:
        if (value := fields.get(name)) is not None:
            if isinstance(value, Mapping):
                value = value.get("effort") or value.get("type")
            room = f"{options.thinking_room} of {options.cap} tokens are left for thinking"
            return f"{name}={value}: {room}"
    return None


def known_levels(model: BaseChatModel) -> tuple[list[str], str | None]:
    """Return the effort levels of a model's LangChain profile, lowest first, and its default."""
    profile: Any = getattr(model, "profile", None) or {}
    names = profile.get("reasoning_effort_levels") if profile.get("reasoning_output") else None
    levels = [level for level in THINKING_TOKENS if level in (names or ())]
    return levels, profile.get("reasoning_effort_default")


def effort_level(
    levels: Sequence[str],
    options: CallOptions,
    *,
    default: str | None = None,
    own: str | None = None,
) -> str | None:
    """Return the effort level to ask for, or None to leave the effort alone.

    The level is the highest whose usual thinking tokens fit, else the lowest. It never exceeds the
    model's default. The caller's own level is kept unless thinking is off.

    Args:
        levels: Levels that the model takes, lowest first.
        options: The options of the call.
        default: Level of the model if it is told none, where known.
        own: Level that the caller has set.
    """
    if not levels or options.is_free:
        return None
    fitting = [level for level in levels if THINKING_TOKENS[level] <= options.thinking_room]
    level = fitting[-1] if fitting else levels[0]
    if own is not None:
        return level if options.thinking == "off" and own != level else None
    if default is not None:
        return level if THINKING_TOKENS[level] < THINKING_TOKENS.get(default, 0) else None
    # A model with the level 'none' may not think by default; another level would make it think.
    is_lower = level == levels[0] or ("none" not in levels and level != levels[-1])
    return level if is_lower else None


def least_cap(model: BaseChatModel) -> int:
    """Return the smallest cap that a model's server takes: OpenAI's Responses API refuses 15."""
    return 16 if is_openai_like(model) and uses_responses(model) else 1


def generic(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of any LangChain chat model, by the name of the field that its class declares.

    How the model thinks is unknown, so only the prompt states the budget.
    """
    return {next(filter(is_cap, type(model).model_fields), "max_tokens"): options.cap}


# OpenAI's protocol.

_OPENAI_NAMES = re.compile(r"gpt-(?!oss)|o\d|chatgpt-")
# Models that have no levels in LangChain's profiles: dated versions, and those before GPT-5.
_OTHER_REASONERS = re.compile(
    r"(gpt-5(-mini|-nano)?|o1|o3|o3-mini|o4-mini)(-\d{4}-\d\d-\d\d)?"  # not GPT-5.1 and later
)


def openai(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of OpenAI's models, by chat completions or the Responses API, also on Azure.

    The cap includes reasoning, which has none of its own. So the effort is lowered until an answer
    fits, unless the caller has set it.
    """
    effort = _openai_effort(model, options)
    return _openai_cap(model, options, _response_format(model, options)) | effort


def _openai_effort(model: Any, options: CallOptions) -> dict[str, Any]:  # noqa: ANN401
    name, reasoning = model.model_name or "", model.reasoning or {}
    if "-pro" in name:  # takes only 'high', even if its profile has more levels
        return {}
    levels, default = known_levels(model)
    if not levels and _OTHER_REASONERS.fullmatch(name):
        levels = ["low", "medium", "high"]
    own = model.reasoning_effort or reasoning.get("effort")
    level = effort_level(levels, options, default=default, own=own)
    if options.thinking == "low" and own is None and "low" in levels and "none" not in levels:
        level = "low"
    if level is None:
        return {}
    if reasoning:  # else LangChain would send the caller's setting and this one
        return {"reasoning": {**reasoning, "effort": level}}
    return {"reasoning_effort": level}


def openai_compatible(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of an unknown server with OpenAI's protocol; thinking is not changed.

    OpenAI's own models, also behind a gateway, take ``max_completion_tokens``. Other servers know
    the older ``max_tokens``, and some ignore the newer name, which would lift the cap.
    """
    settings: Any = model
    is_openais = uses_responses(model) or _OPENAI_NAMES.match(settings.model_name or "")
    return (_openai_cap if is_openais else _old_cap)(
        model, options, _response_format(model, options)
    )


def deepseek(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of DeepSeek's models, which think unless told otherwise, with effort 'high'.

    Thinking is turned off if fewer than 1,024 tokens are left for it. Otherwise the effort is low.
    No schema is sent, because the API takes ``json_object`` only.
    """
    settings: Any = model
    is_own = settings.reasoning_effort or "thinking" in (settings.extra_body or {})
    is_tight = options.thinking == "bounded" and options.thinking_room < MIN_THINKING
    if options.thinking == "off" or (is_tight and not is_own):
        return _old_cap(model, options, {"thinking": {"type": "disabled"}})
    level = None if is_own else effort_level(["low", "high", "max"], options, default="high")
    return _old_cap(model, options, {}) | ({"reasoning_effort": level} if level else {})


def vllm(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of vLLM. A server without ``--reasoning-parser`` refuses a thinking budget."""
    # vLLM's documents do not say whether a budget of 0 is allowed.
    extra = _own_server(model, options, {"thinking_token_budget": max(1, options.thinking_room)})
    if options.continue_last:
        extra |= {"continue_final_message": True, "add_generation_prompt": False}
    return _old_cap(model, options, extra)


def llama_cpp(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of llama.cpp's server, from build b9982 (July 2026) on."""
    budget = {"reasoning_budget_tokens": options.thinking_room}  # models without thinking ignore it
    return _old_cap(model, options, _own_server(model, options, budget))


def _own_server(model: Any, options: CallOptions, budget: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """Return the thinking budget, unless thinking is free, and the schema."""
    extra = {} if options.is_free else budget
    if options.thinking == "off":  # chat templates of hybrid models read this; others ignore it
        own = (model.extra_body or {}).get("chat_template_kwargs") or {}
        extra = extra | {"chat_template_kwargs": {**own, "enable_thinking": False}}
    return extra | _response_format(model, options)


def _cap(model: Any, options: CallOptions, cap: str, timeout: str) -> dict[str, Any]:  # noqa: ANN401
    """Return the cap under its name, and the time limit unless the model has one of its own."""
    limit = {"timeout": options.timeout} if getattr(model, timeout) is None else {}
    return {cap: options.cap, **limit}


def _openai_cap(model: Any, options: CallOptions, extra: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """Return the cap by the name that Azure's class sends as it is, and ``extra`` in the body."""
    bound = _cap(model, options, "max_completion_tokens", "request_timeout")
    return bound | ({"extra_body": {**(model.extra_body or {}), **extra}} if extra else {})


def _old_cap(model: Any, options: CallOptions, extra: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """Return arguments that put ``max_tokens``, under this name, and ``extra`` into the body."""
    bound = _openai_cap(model, options, {"max_tokens": options.cap, **extra})
    return {name: bound[name] for name in bound if name != "max_completion_tokens"}


def _response_format(model: Any, options: CallOptions) -> dict[str, Any]:  # noqa: ANN401
    """Return the schema for the body; as an argument, LangChain raises on a truncated reply.

    The Responses API has another form of it, and is sent none.
    """
    if options.schema is None or uses_responses(model):
        return {}
    schema = {"name": "reply", "schema": options.schema}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _thinking_budget(
    model: BaseChatModel, options: CallOptions, name: str, minimum: int = 0
) -> dict[str, Any]:
    """Return the thinking budget for your own server, unless thinking is free."""
    if options.is_free:
        return {}
    budget = {name: max(minimum, options.thinking_room)}
    if options.thinking == "bounded":
        return budget
    # Chat templates of hybrid models read this argument; others ignore it.
    settings: Any = model
    own = (settings.extra_body or {}).get("chat_template_kwargs") or {}
    return budget | {"chat_template_kwargs": {**own, "enable_thinking": False}}


# Protocols of their own.

_CLAUDE = "langchain_anthropic.ChatAnthropic"
# Least thinking of models that think by default. Other models from version 5 on always think.
_MIN_THINKING = {
    "claude-opus-5": "disabled",
    "claude-sonnet-5": "disabled",
    "claude-sonnet-5-5": "between_tools",
    "claude-haiku-5-5": "disabled",
}


def anthropic(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of Claude; the cap includes thinking.

    Before 5, models think only when asked to, with ``budget_tokens`` that have to stay below the
    cap: they are lowered, or thinking is switched off. From 5 on, models think unasked: where fewer
    than 1,024 tokens are left for thinking, it is set to the least that the model allows. The
    effort is lowered to fit if the model's profile lists efforts.
    """
    settings: Any = model
    own_effort = settings.reasoning_effort or (settings.output_config or {}).get("effort")
    bound = _cap(model, options, "max_tokens", "default_request_timeout")
    if thinking := _claude_thinking(settings, options, own_effort):
        bound["thinking"] = thinking
    levels, default = known_levels(model)
    # LangChain would turn adaptive thinking on for 'reasoning_effort'.
    if level := effort_level(levels, options, default=default, own=own_effort):
        bound["output_config"] = {"effort": level}
    return bound


def _lowered(own: Mapping[str, Any], options: CallOptions) -> dict[str, Any] | None:
    """Return Claude's thinking budget as far as it fits below the cap; None if it fits as it is."""
    limit = options.cap - 1 if options.is_free else options.thinking_room
    if own["budget_tokens"] <= limit:
        return None
    if options.thinking_room < MIN_THINKING:  # the API's minimum
        return {"type": "disabled"}
    return {**own, "budget_tokens": options.thinking_room}


def _claude_thinking(model: Any, options: CallOptions, effort: str | None) -> dict[str, Any] | None:  # noqa: ANN401
    own = model.thinking or model.model_kwargs.get("thinking") or {}
    if own.get("type") == "enabled":
        return _lowered(own, options)
    least = _MIN_THINKING.get(re.sub(r"-\d{8}$", "", model.model))
    if own.get("type") == "adaptive" and "-4-" in model.model:
        least = "disabled"
    is_tight = options.thinking == "bounded" and options.thinking_room < MIN_THINKING
    if least and (options.thinking == "off" or (is_tight and not own and not effort)):
        return {"type": least}
    return None


# Models that take a thinking budget instead of a level.
_GEMINI_BUDGETS = re.compile(
    r"gemini-(?:2\.5-(?=pro|flash)|(?=.*-latest))(pro|flash)(?!.*(image|tts|audio|live|computer))"
)


def gemini(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of Gemini, thinking included, and lower its thinking to what fits.

    Gemini 2.5 takes a thinking budget, and thinks without a limit if it is given none. Later models
    take a level, but not beside a thinking budget of the caller.
    """
    settings: Any = model
    bound = _cap(model, options, "max_output_tokens", "timeout")
    own = settings.thinking_budget
    if own is None:
        own = (settings.thinking_config or {}).get("thinking_budget")
    room, is_own = options.thinking_room, own is not None and own >= 0  # -1 leaves it to the model
    takes_budget = _GEMINI_BUDGETS.search(settings.model)
    if options.is_free:
        return bound
    if takes_budget or is_own:
        budget = min(own, room) if is_own else room if room >= MIN_THINKING else 0
        if takes_budget and takes_budget[1] == "pro":
            budget = max(128, budget)  # cannot be turned off
        elif "lite" in settings.model and budget < THINKING_TOKENS["minimal"]:
            budget = 0
        return bound | {"thinking_budget": budget}
    levels, default = known_levels(model)
    level = effort_level(levels, options, default=default, own=settings.reasoning_effort)
    return bound if level is None or own is not None else bound | {"thinking_level": level}


def bedrock(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of Bedrock's Converse API, thinking included.

    Claude's ``budget_tokens`` are lowered as by `anthropic`. At the effort 'high' Nova has no cap,
    so it is asked for 'medium' at most.
    """
    settings: Any = model
    fields = dict(settings.additional_model_request_fields or {})
    own, nova = fields.get("thinking") or {}, fields.get("reasoningConfig") or {}
    if own.get("type") == "enabled" and (lowered := _lowered(own, options)):
        fields["thinking"] = lowered
    if nova.get("maxReasoningEffort") == "high" or (nova and options.thinking == "off"):
        effort = "low" if options.thinking_room < THINKING_TOKENS["medium"] else "medium"
        fields["reasoningConfig"] = nova | {"maxReasoningEffort": effort}
    more = {"additional_model_request_fields": fields} if fields else {}
    return {"max_tokens": options.cap, **more}


# Ollama's options that its chat model has fields for.
OLLAMA_OPTIONS = (
    *("mirostat", "mirostat_eta", "mirostat_tau", "num_ctx", "num_gpu", "num_thread"),
    *("repeat_last_n", "repeat_penalty", "temperature", "seed", "stop", "tfs_z", "top_k", "top_p"),
)


def ollama(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of Ollama by ``num_predict``, which includes thinking.

    If fewer than 1,024 tokens are left for thinking, it is switched off unless the caller has set
    it; models that do not think ignore this. gpt-oss always thinks, and is asked for a low level.
    """
    settings: Any = model
    # The argument replaces the model's own options, so these are repeated.
    values = {name: getattr(settings, name, None) for name in OLLAMA_OPTIONS}
    own = {name: value for name, value in values.items() if value is not None}
    bound: dict[str, Any] = {"options": {**own, "num_predict": options.cap}}
    is_tight = options.thinking == "bounded" and options.thinking_room < MIN_THINKING
    if options.thinking == "off" or (is_tight and settings.reasoning is None):
        bound["reasoning"] = "low" if "gpt-oss" in settings.model else False
    return bound


_BY_CLASS: dict[str, CapPolicy] = {
    _CLAUDE: anthropic,
    "langchain_google_genai.ChatGoogleGenerativeAI": gemini,
    "langchain_ollama.ChatOllama": ollama,
    "langchain_aws.ChatBedrockConverse": bedrock,
}
_POLICIES = (generic, openai, openai_compatible, deepseek, vllm, llama_cpp, *_BY_CLASS.values())
POLICIES: dict[str, CapPolicy] = {policy.__name__: policy for policy in _POLICIES}
"""The policies by name."""
CONTINUING: set[CapPolicy] = {vllm, llama_cpp}
"""Policies of servers that continue an unfinished last AI message."""
