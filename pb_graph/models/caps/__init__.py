"""A budget in each provider's own words: the arguments that bound one model call.

One function per provider; `policy_for` chooses by the model object, and a ``cap_policy`` of the
caller's takes its place. The caller's own settings are only ever lowered, and only where they
cannot fit into the cap. No provider's package is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pb_graph.local import server
from pb_graph.models.caps.native import anthropic, gemini, ollama
from pb_graph.models.caps.openai import (
    deepseek,
    llama_cpp,
    openai,
    openai_compatible,
    sglang,
    vllm,
)
from pb_graph.models.caps.policy import (
    BY_CLASS,
    BY_DOMAIN,
    BY_NAME,
    CAP_NAMES,
    CONTINUATIONS,
    OVERRIDES,
    CapPolicy,
    Continuation,
    policy,
)
from pb_graph.models.chat_models import address_of, classes_of, is_openai_like

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

__all__ = [
    "BY_NAME",
    "CAP_NAMES",
    "CapPolicy",
    "Continuation",
    "anthropic",
    "capped_arguments",
    "constructor_overrides",
    "continuation",
    "deepseek",
    "describe_effort",
    "gemini",
    "generic",
    "llama_cpp",
    "ollama",
    "openai",
    "openai_compatible",
    "policy",
    "policy_for",
    "sglang",
    "vllm",
]

_CAP_FIELDS = ("max_tokens", "max_output_tokens", "num_predict", "max_new_tokens")

_EFFORTS = (
    *("reasoning_effort", "effort", "thinking_level", "thinking_budget", "thinking_token_budget"),
    *("reasoning_budget_tokens", "thinking", "reasoning", "enable_thinking"),
)
_SCHEMAS = ("response_format", "format", "text")


@policy()
def generic(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of any LangChain chat model, by the name of the field that its class declares.

    Nothing is known of how it thinks; the prompt has the budget in words.
    """
    fields = type(model).model_fields
    name = next((name for name in _CAP_FIELDS if name in fields), "max_tokens")
    return {name: options.cap}


def policy_for(model: BaseChatModel) -> CapPolicy:
    """Return the policy that fits a chat model, by the names of its classes.

    Models that speak OpenAI's protocol are told apart by the address of their server.
    """
    kinds = classes_of(model)
    if not is_openai_like(model):
        return next((BY_CLASS[kind] for kind in kinds if kind in BY_CLASS), generic)
    host = urlsplit(address_of(model)).hostname or ""  # empty for OpenAI's own by default
    if not host or "langchain_openai.AzureChatOpenAI" in kinds:
        return openai
    for domain, found in BY_DOMAIN.items():
        if host == domain or host.endswith(f".{domain}"):
            return found
    return llama_cpp if server.is_served(address_of(model)) else openai_compatible


def constructor_overrides(model: BaseChatModel, policy: CapPolicy) -> dict[str, Any]:
    """Return the fields to change in a copy of a model, so that a policy's arguments win.

    Args:
        model: As the caller made it, which is what a policy of the caller's own counts on.
        policy: The cap policy.
    """
    overrides = OVERRIDES.get(getattr(policy, "base", policy))  # of one that was probed
    return overrides(model) if overrides else {}


def continuation(policy: CapPolicy) -> Continuation | None:
    """Return how a policy's servers continue a last AI message; None if they do not."""
    return CONTINUATIONS.get(getattr(policy, "base", policy))


def capped_arguments(given: Mapping[str, Any], by_policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's arguments with a policy's over them; of Ollama's options only the cap."""
    arguments = {**given, **by_policy}
    if (own := given.get("options")) and (options := by_policy.get("options")):
        caps = {name: options[name] for name in CAP_NAMES if name in options}
        arguments["options"] = {**own, **caps}
    return arguments


def describe_effort(arguments: Mapping[str, Any], options: CallOptions) -> str | None:
    """Return the reasoning effort that a call asks for, and why; None if it asks for none.

    Args:
        arguments: The arguments of the call.
        options: The options that they were made from.
    """
    asked = next((text for text in map(_find(arguments).get, _EFFORTS) if text), None)
    if asked is None:
        return None
    return f"{asked}: {options.thinking_room} of {options.cap} tokens are left for thinking"


def _find(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return what arguments say of thinking, by name, however deep they say it."""
    found: dict[str, str] = {}
    for name, value in arguments.items():
        if isinstance(value, Mapping) and name not in _SCHEMAS:
            found |= _find(value)
            value = value.get("type")  # noqa: PLW2901 -- as Anthropic and DeepSeek say it
        if name in _EFFORTS and value is not None:
            found[name] = f"{name}={value}"
    return found
