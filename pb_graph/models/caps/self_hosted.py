"""Policies for servers that one runs oneself.

vLLM, SGLang and llama.cpp speak OpenAI's protocol and look alike from here, so the caller has to
choose: ``build_graph(model, cap_policy=vllm)``. Only their requests were checked, except for
llama.cpp's, which the local models run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pb_graph.errors import ModelSetupError
from pb_graph.models.caps.openai import capped_body, response_format, without_own_cap
from pb_graph.models.caps.policy import MIN_THINKING, policy

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

_CONTINUE = {"continue_final_message": True}
# Ollama's options that its chat model has fields for.
OLLAMA_OPTIONS = (
    *("mirostat", "mirostat_eta", "mirostat_tau", "num_ctx", "num_gpu", "num_thread"),
    *("repeat_last_n", "repeat_penalty", "temperature", "seed", "stop", "tfs_z", "top_k", "top_p"),
)


@policy(overrides=without_own_cap, continues="rest")
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


@policy(overrides=without_own_cap, continues="rest")
def sglang(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of SGLang, started with ``--reasoning-parser`` and ``--enable-strict-thinking``.

    Without the latter, ``custom_params.thinking_budget`` is ignored. Source: SGLang's page on
    thinking budgets. Known not to hold for Qwen3.6 in 0.5.12 (SGLang's issue 25536).
    """
    own = _body(model).get("custom_params") or {}
    budget = _at_most(own.get("thinking_budget"), options.thinking_room)
    custom = {"custom_params": {**own, "thinking_budget": budget}}
    return _bounded(model, options, custom, _CONTINUE if options.continue_last else {})


@policy(overrides=without_own_cap, continues="whole")
def llama_cpp(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of llama.cpp's server, with ``reasoning_budget_tokens``.

    Models that do not think ignore it. Builds before July 2026 (b9982) know it by its other name
    only, and heed it only when started without ``--reasoning-budget``. Source: the server's code.
    """
    names = ("reasoning_budget_tokens", "thinking_budget_tokens")
    own = next((found for name in names if (found := _body(model).get(name)) is not None), None)
    return _bounded(model, options, dict.fromkeys(names, _at_most(own, options.thinking_room)), {})


@policy(cls="langchain_ollama.ChatOllama")
def ollama(model: BaseChatModel, options: CallOptions) -> dict[str, Any]:
    """Cap a call of Ollama by ``num_predict``, which includes thinking.

    It has no thinking budget. Where fewer than 1,024 tokens are left for thinking, that is switched
    off, unless the caller has set it; gpt-oss cannot do without and is asked for a low level.
    Models that do not think take 'off' without complaint.

    Checked: the requests, with langchain-ollama 1.1. Not checked against a running Ollama.
    """
    settings: Any = model
    # The cap alone would be refused, and options that are given replace all of the caller's.
    given = {name: getattr(settings, name, None) for name in OLLAMA_OPTIONS}
    own = {name: value for name, value in given.items() if value is not None}
    bound: dict[str, Any] = {"options": {**own, "num_predict": options.cap}}
    is_tight = options.thinking == "bounded" and options.thinking_room < MIN_THINKING
    if options.thinking == "off" or (is_tight and settings.reasoning is None):
        bound["reasoning"] = "low" if "gpt-oss" in settings.model else False
    return bound


def _bounded(
    model: BaseChatModel, options: CallOptions, budget: dict[str, Any], extra: dict[str, Any]
) -> dict[str, Any]:
    """Return the cap, the schema, the thinking budget unless thinking is free, and ``extra``."""
    body = extra if options.thinking == "free" else budget | extra
    if options.thinking == "off":  # the chat templates of hybrid models know this, others ignore it
        own = _body(model).get("chat_template_kwargs") or {}
        body = body | {"chat_template_kwargs": {**own, "enable_thinking": False}}
    return capped_body(model, options, body | response_format(options))


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
