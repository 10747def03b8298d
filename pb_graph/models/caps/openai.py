"""Policies for servers that speak OpenAI's protocol: OpenAI, Azure, DeepSeek, and one's own.

vLLM, SGLang and llama.cpp look alike from here, so the caller has to choose:
``build_graph(model, cap_policy=vllm)``. Only their requests were checked, except for llama.cpp's,
which the local models run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pb_graph.errors import ModelSetupError
from pb_graph.models.caps.policy import MIN_THINKING, effort_level, known_levels, policy

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

# Of the caller's own in the body: servers take one of them beside ours, and not the lower one.
_CAPS = frozenset({"max_tokens", "max_completion_tokens"})
_OPENAI_NAMES = re.compile(r"^(gpt-(?!oss)|o\d|chatgpt-)")
# Of models without levels in LangChain's profiles: dated versions, and those before GPT-5.
_LEVELS = (
    (re.compile(r"^gpt-5(-mini|-nano)?-\d{4}-"), ["minimal", "low", "medium", "high"]),
    (re.compile(r"^gpt-5\.\d+(-mini|-nano)?-\d{4}-"), ["none", "low", "medium", "high"]),
    (re.compile(r"^o(1|3|3-mini|4-mini)(-\d{4}-.*)?$"), ["low", "medium", "high"]),
)
# They are made to think long; the first of them takes no level but 'high'.
_THINKS_LONG = re.compile(r"-pro(-\d|$)|deep-research")
# The older 'deepseek-chat' and 'deepseek-reasoner' say by their names whether they think.
_HYBRIDS = re.compile(r"^deepseek-(v[4-9]|flash|pro)")
_CONTINUE = {"continue_final_message": True}


def _without_own_cap(model: BaseChatModel) -> dict[str, Any]:  # noqa: ARG001 -- as every override
    """Drop the caller's cap, which LangChain would send beside ours under the new name."""
    return {"max_tokens": None}


@policy(domains=("api.openai.com", "openai.azure.com"), overrides=_without_own_cap)
def openai(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of OpenAI's models, by chat completions or the Responses API, also on Azure.

    Both caps, ``max_completion_tokens`` and ``max_output_tokens``, include reasoning, for which
    there is no cap of its own. So the effort is lowered to what leaves room for an answer, unless
    the caller has set it.

    Checked: the requests, with langchain-openai 1.7. Not checked against OpenAI's servers: that
    each model takes all the levels its profile names, and how many tokens a level costs.
    """
    settings: Any = model
    bound = {"max_tokens": options.cap, **_timeout(model, options), **_effort(model, options)}
    if settings.use_responses_api:
        return bound | _text_format(model, options)
    return bound | _with_body(model, _response_format(options))


@policy(overrides=_without_own_cap)
def openai_compatible(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of a server that speaks OpenAI's protocol, and of which nothing else is known.

    OpenAI's own models, also behind a gateway, take ``max_completion_tokens``, which is what
    LangChain sends. Other servers know the older ``max_tokens``, and some ignore the newer name,
    which would lift the cap. Thinking is left alone: for vLLM, SGLang and llama.cpp, which cannot
    be told apart from here, there are policies of their own.
    """
    settings: Any = model
    bound = {"max_tokens": options.cap, **_timeout(model, options)}
    if settings.use_responses_api:
        return bound | _text_format(model, options)
    if _OPENAI_NAMES.match(settings.model_name or ""):
        return bound | _with_body(model, _response_format(options))
    return _capped_body(model, options, _response_format(options))


@policy(domains=("deepseek.com",), overrides=_without_own_cap)
def deepseek(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of DeepSeek's models, which think unless told otherwise, with effort 'high'.

    The cap includes thinking, which is switched off where fewer than 1,024 tokens are left for it,
    and done with low effort where there are more. The caller's settings stand, unless there is to
    be no thinking at all. No schema is sent: the API takes ``json_object`` only.

    Checked: the requests, with langchain-deepseek 1.1. Not checked against DeepSeek's servers.
    Source: DeepSeek's guide to thinking mode.
    """
    settings: Any = model
    body = settings.extra_body or {}
    bound = _capped_body(model, options, {})
    if not _HYBRIDS.match(settings.model_name or "") or options.thinking == "free":
        return bound
    is_untouched = not settings.reasoning_effort and not {"thinking", "reasoning_effort"} & {*body}
    if options.thinking == "off" or (is_untouched and options.thinking_room < MIN_THINKING):
        return _capped_body(model, options, {"thinking": {"type": "disabled"}})
    levels = ["low", "high", "max"] if is_untouched else []
    level = effort_level(levels, options, default="high")
    return bound | ({"reasoning_effort": level} if level else {})


@policy(overrides=_without_own_cap, continues="rest")
def vllm(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of vLLM, started with ``--reasoning-parser``: without it, it refuses this.

    ``thinking_token_budget`` goes into the body at its top level (as one of ``vllm_xargs`` or
    ``extra_args`` it would be ignored). Source: vLLM's pages on reasoning outputs.
    """
    own = _body(model).get("thinking_token_budget")
    # Whether it takes a budget of 0 is not documented.
    budget = {"thinking_token_budget": max(1, _at_most(own, options.thinking_room))}
    continued = _CONTINUE | {"add_generation_prompt": False} if options.continue_last else {}
    return _bounded(model, options, budget, continued)


@policy(overrides=_without_own_cap, continues="rest")
def sglang(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of SGLang, started with ``--reasoning-parser`` and ``--enable-strict-thinking``.

    Without the latter, ``custom_params.thinking_budget`` is ignored. Source: SGLang's page on
    thinking budgets. Known not to hold for Qwen3.6 in 0.5.12 (SGLang's issue 25536).
    """
    own = _body(model).get("custom_params") or {}
    budget = _at_most(own.get("thinking_budget"), options.thinking_room)
    custom = {"custom_params": {**own, "thinking_budget": budget}}
    return _bounded(model, options, custom, _CONTINUE if options.continue_last else {})


@policy(overrides=_without_own_cap, continues="whole")
def llama_cpp(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of llama.cpp's server, with ``reasoning_budget_tokens``.

    Models that do not think ignore it. Builds before July 2026 (b9982) know it by its other name
    only, and heed it only when started without ``--reasoning-budget``. Source: the server's code.
    """
    names = ("reasoning_budget_tokens", "thinking_budget_tokens")
    own = next((found for name in names if (found := _body(model).get(name)) is not None), None)
    return _bounded(model, options, dict.fromkeys(names, _at_most(own, options.thinking_room)), {})


def _capped_body(
    model: BaseChatModel, options: CallOptions, extra: dict[str, Any]
) -> dict[str, Any]:
    """Return arguments that put ``max_tokens``, under this name, and ``extra`` into the body."""
    settings: Any = model
    bound = _timeout(model, options)
    # LangChain would send the caller's own cap beside ours; responses have another name for it.
    if settings.max_tokens is not None or settings.use_responses_api:
        bound["max_tokens"] = options.cap
    return bound | _with_body(model, {"max_tokens": options.cap} | extra)


def _response_format(options: CallOptions) -> dict[str, Any]:
    """Return the schema for the body; as an argument, LangChain raises on a truncated reply."""
    if options.schema is None:
        return {}
    schema = {"name": "reply", "schema": options.schema}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _with_body(model: BaseChatModel, extra: dict[str, Any]) -> dict[str, Any]:
    """Return ``extra`` as part of the body, beside the caller's own, which binding replaces."""
    settings: Any = model
    own = settings.extra_body or {}
    kept = {name: value for name, value in own.items() if name not in _CAPS}
    return {"extra_body": kept | extra} if extra or kept != own else {}


def _text_format(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    if options.schema is None:
        return {}
    form = {"type": "json_schema", "name": "reply", "schema": options.schema, "strict": False}
    settings: Any = model
    return {"text": {**settings.model_kwargs.get("text", {}), "format": form}}


def _timeout(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    settings: Any = model
    return {"timeout": options.timeout} if settings.request_timeout is None else {}


def _effort(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    settings: Any = model
    reasoning = settings.reasoning or {}
    if {"reasoning_effort", "reasoning"} & {*settings.model_kwargs, *(settings.extra_body or ())}:
        return {}
    name = settings.model_name or ""
    levels, default = ([], None) if _THINKS_LONG.search(name) else known_levels(model)
    if not levels and not _THINKS_LONG.search(name):
        levels = next((found for pattern, found in _LEVELS if pattern.match(name)), [])
    own = settings.reasoning_effort or reasoning.get("effort")
    level = effort_level(levels, options, default=default, own=own)
    if level is None:
        return {}
    if reasoning:  # beside one of the caller's, LangChain would send a second word for the same
        return {"reasoning": {**reasoning, "effort": level}}
    return {"reasoning_effort": level}


def _bounded(
    model: BaseChatModel, options: CallOptions, budget: dict[str, Any], extra: dict[str, Any]
) -> dict[str, Any]:
    """Return the cap, the schema, the thinking budget unless thinking is free, and ``extra``."""
    body = extra if options.thinking == "free" else budget | extra
    if options.thinking == "off":  # the chat templates of hybrid models know this, others ignore it
        own = _body(model).get("chat_template_kwargs") or {}
        body = body | {"chat_template_kwargs": {**own, "enable_thinking": False}}
    return _capped_body(model, options, body | _response_format(options))


def _at_most(own: object, room: int) -> int:
    """Return the caller's own budget if it fits; -1 stands for none."""
    return min(own, room) if isinstance(own, int) and own >= 0 else room


def _body(model: BaseChatModel) -> dict[str, Any]:
    if not hasattr(model, "extra_body"):
        msg = (
            f"{type(model).__name__} does not speak OpenAI's protocol, which this cap policy needs."
            " Use ChatOpenAI with the base_url of your server, or leave cap_policy out."
        )
        raise ModelSetupError(msg)
    body: dict[str, Any] = model.extra_body or {}
    return body
