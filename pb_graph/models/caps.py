"""Map the cap of a call to the arguments of its provider, one function for each provider.

The caller's own settings are kept unless they cannot fit into the cap. Levels and ranges are those
of the providers' documents; no provider's package is imported here, unless its model is given.
"""
# ruff: noqa: ANN401 -- models of any class, whose fields are read

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages

from pb_graph.errors import InputError, did_you_mean
from pb_graph.local import server
from pb_graph.models.options import (
    MIN_THINKING,
    THINKING_TOKENS,
    CallOptions,
    address_of,
    classes_of,
    generic,
    name_of,
    uses_responses,
)
from pb_graph.models.provider_errors import refusal_of

CapPolicy = Callable[[BaseChatModel, CallOptions], dict[str, Any]]
"""Turns a model and the options of a call into the call's arguments, with at least its cap."""

_DISABLED = {"type": "disabled"}
_OPENAI_NAMES = re.compile(r"gpt-(?!oss)|o\d|chatgpt-")
# Models without levels in LangChain's profiles: dated versions, new ones, and those before GPT-5.1.
_OTHER_REASONERS = re.compile(r"(gpt-5(-mini|-nano)?|o1|o3|o3-mini|o4-mini)(-\d{4}-\d\d-\d\d)?")
# Claude thinks unasked from version 5 on. These models can be told to think less, others cannot.
_LESS_THINKING = dict.fromkeys(("claude-opus-5", "claude-sonnet-5", "claude-haiku-5-5"), _DISABLED)
_LESS_THINKING["claude-sonnet-5-5"] = {"type": "between_tools"}
# Models that take a thinking budget instead of a level.
_GEMINI_BUDGETS = re.compile(
    r"gemini-(?:2\.5-(?=pro|flash)|(?=.*-latest))(pro|flash)(?!.*(image|tts|audio|live|computer))"
)
_NEW_GEMINIS = re.compile(r"(models/)?gemini-[3-9][\d.]*-(pro|flash)(-preview)?")
_CONTINUING_CLAUDE = re.compile(r"claude-(3-|(opus|sonnet|haiku)-4-([015]\b|\d{8}))")
_TOO_LARGE = re.compile(r"max\w*[ _-]?(\w+[ _-])?(tokens|length)", re.IGNORECASE)
_MIN_REFUSED = 1024  # a smaller cap is not what a server refuses


def policy_for(model: BaseChatModel) -> CapPolicy:
    """Return the policy that fits a chat model, by its classes and the address of its server."""
    policy = next((_BY_CLASS[kind] for kind in classes_of(model) if kind in _BY_CLASS), generic)
    if policy is not openai_compatible:
        return policy
    host = urlsplit(address_of(model)).hostname or ""  # empty for OpenAI's own by default
    if not host or host.endswith(("api.openai.com", "openai.azure.com")):
        return openai
    if host.endswith("deepseek.com"):
        return deepseek
    return llama_cpp if server.is_served(address_of(model)) else openai_compatible


def known_levels(model: Any, *, thinks: object = False) -> tuple[list[str], str | None]:
    """Return a model's effort levels, lowest first (the usual if it `thinks`), and its default."""
    profile, usual = model.profile or {}, ["low", "medium", "high"] if thinks else []
    names = profile.get("reasoning_effort_levels") if profile.get("reasoning_output") else None
    levels = [level for level in THINKING_TOKENS if level in (names or ())]
    return levels or usual, profile.get("reasoning_effort_default")


def _effort_level(
    options: CallOptions, levels: Sequence[str], default: str | None, own: str | None = None
) -> str | None:
    """Return the highest level whose usual thinking fits, else the lowest; None to ask for none."""
    if not levels or options.is_free:
        return None
    room = options.thinking_room
    level = next((each for each in reversed(levels) if THINKING_TOKENS[each] <= room), levels[0])
    if own is not None:  # the caller's level is kept unless thinking is off
        is_asked = options.thinking == "off" and own != level
    elif default is not None:  # of the model, which is never exceeded
        is_asked = THINKING_TOKENS[level] < THINKING_TOKENS.get(default, 0)
    else:  # a model with the level 'none' may not think, and another level would make it think
        is_asked = level == levels[0] or ("none" not in levels and level != levels[-1])
    return level if is_asked else None


def openai(model: Any, options: CallOptions) -> dict[str, Any]:
    """Cap a call of OpenAI's models, reasoning included, by either of their APIs, also on Azure."""
    sent = _openai_arguments(model, options, "max_completion_tokens")
    name, reasoning = model.model_name or "", model.reasoning or {}
    thinks = (model.profile or {}).get("reasoning_output") or _OTHER_REASONERS.fullmatch(name)
    levels, default = known_levels(model, thinks=thinks)
    own = model.reasoning_effort or reasoning.get("effort")
    level = _effort_level(options, levels, default, own)
    if options.thinking == "low" and own is None and "low" in levels and "none" not in levels:
        level = "low"
    if level is None or "-pro" in name:  # takes only 'high', even if its profile has more levels
        return sent
    if reasoning:  # else LangChain would send the caller's setting and this one
        return sent | {"reasoning": {**reasoning, "effort": level}}
    return sent | {"reasoning_effort": level}


def openai_compatible(model: Any, options: CallOptions) -> dict[str, Any]:
    """Cap a call of an unknown server with OpenAI's protocol; only thinking budgets are lowered."""
    # Except for OpenAI's models, servers know the older name; some ignore the newer one, uncapped.
    name = (model.model_name or "").rpartition("/")[2]
    is_openais = uses_responses(model) or _OPENAI_NAMES.match(name)
    cap_name = "max_completion_tokens" if is_openais else "max_tokens"
    return _openai_arguments(model, options, cap_name)


def deepseek(model: Any, options: CallOptions) -> dict[str, Any]:
    """Cap a call of DeepSeek's models, which think unless told otherwise, with effort 'high'."""
    options = options._replace(schema=None)  # the API takes `json_object` only
    is_own = model.reasoning_effort or "thinking" in (model.extra_body or {})
    if options.thinking == "off" or (options.is_tight and not is_own):
        return _openai_arguments(model, options, thinking=_DISABLED)
    level = None if is_own else _effort_level(options, ["low", "high", "max"], "high")
    return _openai_arguments(model, options) | ({"reasoning_effort": level} if level else {})


def vllm(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of vLLM. A server without ``--reasoning-parser`` refuses a thinking budget."""
    marks: Any = {"continue_final_message": True, "add_generation_prompt": False}
    # vLLM's documents do not say whether a budget of 0 is allowed.
    budget = {"thinking_token_budget": max(1, options.thinking_room)}
    return _own_server(model, options, budget, **(marks if options.continue_last else {}))


def llama_cpp(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of llama.cpp's server, from build b9982 (July 2026) on."""
    # Models without thinking ignore the budget.
    return _own_server(model, options, {"reasoning_budget_tokens": options.thinking_room})


def _own_server(model: Any, options: CallOptions, budget: Any, **extra: Any) -> dict[str, Any]:
    if options.thinking == "off":  # chat templates of hybrid models read this; others ignore it
        own = (model.extra_body or {}).get("chat_template_kwargs") or {}
        extra["chat_template_kwargs"] = {**own, "enable_thinking": False}
    return _openai_arguments(model, options, **extra, **({} if options.is_free else budget))


def _openai_arguments(
    model: Any, options: CallOptions, cap_name: str = "max_tokens", **extra: Any
) -> dict[str, Any]:
    """Return the arguments for a server of OpenAI's protocol; the model's own timeout is kept."""
    sent = {"timeout": options.timeout} if model.request_timeout is None else {}
    own, room = model.extra_body or {}, max(1, options.thinking_room)
    # The caller's thinking budgets, of vLLM, Qwen, Claude and OpenRouter, fit below the cap.
    budgets = ("thinking_token_budget", "thinking_budget")
    fitting: Any = {name: min(own[name], room) for name in budgets if type(own.get(name)) is int}
    fitting["thinking"] = _lowered(own.get("thinking"), options)
    fitting["reasoning"] = _lowered(own.get("reasoning"), options, "max_tokens")
    body = own | {name: value for name, value in fitting.items() if value} | extra
    # LangChain renames an argument `max_tokens`, and raises on a truncated reply to a schema: both
    # have to stand in the body. The Responses API has another form of a schema, and is sent none.
    (body if cap_name == "max_tokens" else sent)[cap_name] = options.cap
    if options.schema is not None and not uses_responses(model):
        schema = {"name": "reply", "schema": options.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return sent | ({"extra_body": body} if body else {})


def anthropic(model: Any, options: CallOptions) -> dict[str, Any]:
    """Cap a call of Claude, thinking included, and lower its thinking to what fits."""
    effort = model.reasoning_effort or (model.output_config or {}).get("effort")
    own = model.thinking or model.model_kwargs.get("thinking") or {}
    less = _LESS_THINKING.get(re.sub(r"-\d{8}$", "", model.model))
    if own.get("type") == "adaptive" and "-4-" in model.model:
        less = _DISABLED
    thinking = _lowered(own, options)
    if options.thinking == "off" or (options.is_tight and not own and not effort):
        thinking = thinking or less
    sent: Any = {"timeout": options.timeout} if model.default_request_timeout is None else {}
    sent |= {"max_tokens": options.cap} | ({"thinking": thinking} if thinking else {})
    # LangChain would turn adaptive thinking on for 'reasoning_effort'.
    level = _effort_level(options, *known_levels(model), own=effort)
    return {**sent, **({"output_config": {"effort": level}} if level else {})}


def _lowered(own: Any, options: CallOptions, name: str = "budget_tokens") -> dict[str, Any] | None:
    """Return a thinking budget as far as it fits below the cap; None if it fits as it is."""
    limit = options.cap - 1 if options.is_free else options.thinking_room
    if not isinstance(own, Mapping) or (own.get(name) or 0) <= limit:
        return None
    if options.thinking_room < MIN_THINKING:  # the API's minimum
        return _DISABLED if "type" in own else {"enabled": False}
    return {**own, name: options.thinking_room}


def gemini(model: Any, options: CallOptions) -> dict[str, Any]:
    """Cap a call of Gemini, thinking included, and lower its thinking to what fits."""
    sent: dict[str, Any] = {"timeout": options.timeout} if model.timeout is None else {}
    sent["max_output_tokens"] = options.cap
    if options.is_free:
        return sent
    own = model.thinking_budget
    if own is None:
        own = (model.thinking_config or {}).get("thinking_budget")
    room, is_own = options.thinking_room, own is not None and own >= 0  # -1 leaves it to the model
    takes_budget = _GEMINI_BUDGETS.search(model.model)
    if takes_budget or is_own:
        budget = min(own, room) if is_own else room if room >= MIN_THINKING else 0
        if takes_budget and takes_budget[1] == "pro":
            budget = max(128, budget)  # cannot be turned off
        elif "lite" in model.model and budget < THINKING_TOKENS["minimal"]:
            budget = 0
        return sent | {"thinking_budget": budget}
    known = known_levels(model, thinks=_NEW_GEMINIS.fullmatch(model.model))
    level = _effort_level(options, *known, own=model.reasoning_effort)
    # Google takes no level beside a thinking budget.
    return sent if level is None or own is not None else sent | {"thinking_level": level}


def bedrock(model: Any, options: CallOptions) -> dict[str, Any]:
    """Cap a call of Bedrock's Converse API, thinking included."""
    fields = dict(model.additional_model_request_fields or {})
    if lowered := _lowered(fields.get("thinking"), options):  # Claude's
        fields["thinking"] = lowered
    nova = fields.get("reasoningConfig") or {}  # has no cap at the effort 'high'
    if nova.get("maxReasoningEffort") == "high" or (nova and options.thinking == "off"):
        effort = "low" if options.thinking_room < THINKING_TOKENS["medium"] else "medium"
        fields["reasoningConfig"] = nova | {"maxReasoningEffort": effort}
    more = {"additional_model_request_fields": fields} if fields else {}
    return {"max_tokens": options.cap, **more}


def ollama(model: Any, options: CallOptions) -> dict[str, Any]:
    """Cap a call of Ollama by ``num_predict``, which includes thinking."""
    from ollama import Options  # noqa: PLC0415 -- installed with the model's class

    # The argument replaces the model's own options, so these are repeated.
    names = Options.model_fields.keys() & type(model).model_fields.keys()
    own = {name: value for name in names if (value := getattr(model, name)) is not None}
    sent: dict[str, Any] = {"options": {**own, "num_predict": options.cap}}
    if options.thinking == "off" or (options.is_tight and model.reasoning is None):
        sent["reasoning"] = "low" if "gpt-oss" in model.model else False  # which always thinks
    return sent


_BY_CLASS: dict[str, CapPolicy] = {
    "langchain_anthropic.ChatAnthropic": anthropic,
    "langchain_google_genai.ChatGoogleGenerativeAI": gemini,
    "langchain_ollama.ChatOllama": ollama,
    "langchain_aws.ChatBedrockConverse": bedrock,
    "langchain_openai.AzureChatOpenAI": openai,
    "langchain_openai.BaseChatOpenAI": openai_compatible,  # if its address is no other's
}
_POLICIES = (generic, openai, openai_compatible, deepseek, vllm, llama_cpp, *_BY_CLASS.values())
POLICIES: dict[str, CapPolicy] = {policy.__name__: policy for policy in _POLICIES}
# Servers that continue an unfinished last AI message, whatever the model.
CONTINUING: set[CapPolicy] = {vllm, llama_cpp}


def can_continue(model: BaseChatModel, policy: CapPolicy) -> bool:
    """Return whether a model's server is known to continue an unfinished last AI message."""
    if policy is anthropic:  # before version 4.6, if it does not think
        return bool(_CONTINUING_CLAUDE.search(name_of(model)))
    return policy in CONTINUING or (policy is deepseek and policy_for(model) is deepseek)


def continuing(
    model: Any, messages: Sequence[BaseMessage], arguments: dict[str, Any], policy: CapPolicy
) -> tuple[Any, Sequence[BaseMessage], dict[str, Any]]:
    """Return the model, messages and arguments of a call that continues the last message."""
    if policy is anthropic:  # refuses a space at the end
        return model, [*messages[:-1], AIMessage(messages[-1].text.rstrip())], arguments
    if policy is not deepseek:
        return model, messages, arguments
    # LangChain has no name for DeepSeek's mark, so the messages of the body are replaced.
    *before, begun = convert_to_openai_messages(list(messages))
    body = arguments["extra_body"] | {"messages": [*before, begun | {"prefix": True}]}
    beta = urlsplit(address_of(model))._replace(path="/beta").geturl()
    clients = {
        side: sdk.with_options(base_url=beta).chat.completions
        for side in ("client", "async_client")
        if (sdk := getattr(model, f"root_{side}"))
    }
    return model.model_copy(update=clients), messages, arguments | {"extra_body": body}


def adapted(
    model: Any, policy: CapPolicy, cap: int, error: Exception
) -> tuple[Any, CapPolicy, int] | None:
    """Return the model, policy and cap that a server may take which refused a call; else None."""
    reason = refusal_of(error)
    if policy is openai_compatible and "max_completion_tokens" in reason:
        return model, openai, cap
    if "stream_options" in reason and getattr(model, "stream_usage", False):
        return model.model_copy(update={"stream_usage": False}), policy, cap
    if cap <= _MIN_REFUSED or not _TOO_LARGE.search(reason):
        return None
    # Servers name what a model can write, or how long its prompt and reply can be together.
    named = [int(number) for number in re.findall(r"\d{3,9}", reason)]
    return model, policy, max((n for n in named if _MIN_REFUSED <= n < cap), default=cap // 2)


def known_policy(policy: CapPolicy | str | None) -> CapPolicy | None:
    """Return the policy of a name, or raise InputError; return a policy, or None, as it is."""
    if not isinstance(policy, str):
        return policy
    if policy not in POLICIES:
        msg = f"no cap policy is called {policy!r}; available: {', '.join(POLICIES)}"
        raise InputError(msg + did_you_mean(policy, POLICIES))
    return POLICIES[policy]
