"""Policies for servers that one runs oneself: they cap thinking by the token.

All three speak OpenAI's protocol and look alike from here, so the caller has to choose:
``build_graph(model, cap_policy=vllm)``. None was checked against a running server; only the
requests were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pb_graph.errors import ModelSetupError
from pb_graph.models.caps.compatible import capped_body, response_format, without_cap
from pb_graph.models.caps.limits import policy

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

_GOES_ON = {"continue_final_message": True}


@policy(change=without_cap, continues="adds")
def vllm(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    """VLLM, started with ``--reasoning-parser``: without it, it refuses a thinking budget.

    ``thinking_token_budget`` goes into the body at its top level (as one of ``vllm_xargs`` or
    ``extra_args`` it would be ignored). Source: vLLM's pages on reasoning outputs.
    """
    own = _body(model).get("thinking_token_budget")
    # Whether it takes a budget of 0 is not documented.
    budget = {"thinking_token_budget": max(1, _at_most(own, limits.thinking_room))}
    extra = _GOES_ON | {"add_generation_prompt": False} if limits.continue_last else {}
    return _bounded(model, limits, budget, extra)


@policy(change=without_cap, continues="adds")
def sglang(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    """SGLang, started with ``--reasoning-parser`` and ``--enable-strict-thinking``.

    Without the latter, ``custom_params.thinking_budget`` is ignored. Source: SGLang's page on
    thinking budgets. Known not to hold for Qwen3.6 in 0.5.12 (SGLang's issue 25536).
    """
    own = _body(model).get("custom_params") or {}
    budget = _at_most(own.get("thinking_budget"), limits.thinking_room)
    custom = {"custom_params": {**own, "thinking_budget": budget}}
    return _bounded(model, limits, custom, _GOES_ON if limits.continue_last else {})


@policy(change=without_cap, continues="repeats")
def llama_cpp(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    """llama.cpp's server: ``reasoning_budget_tokens``, which models that do not think ignore.

    Builds before July 2026 (b9982) know it by its other name only, and heed it only when started
    without ``--reasoning-budget``. Source: the server's code. It goes on from a last turn of the
    model's by itself, and says that again in front of what it adds (checked on the local
    model).
    """
    names = ("reasoning_budget_tokens", "thinking_budget_tokens")
    own = next((found for name in names if (found := _body(model).get(name)) is not None), None)
    return _bounded(model, limits, dict.fromkeys(names, _at_most(own, limits.thinking_room)))


def _bounded(
    model: BaseChatModel,
    limits: CallOptions,
    budget: dict[str, Any],
    wished: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The cap, the schema, what bounds thinking if anything is to, and what else is wanted."""
    extra = ({} if limits.thinking == "free" else budget) | (wished or {})
    if limits.thinking == "off":  # the chat templates of hybrid models know this, others ignore it
        own = _body(model).get("chat_template_kwargs") or {}
        extra = extra | {"chat_template_kwargs": {**own, "enable_thinking": False}}
    return capped_body(model, limits, extra | response_format(limits))


def _at_most(own: object, room: int) -> int:
    """The caller's own budget, if it fits; -1 stands for none."""
    return min(own, room) if isinstance(own, int) and own >= 0 else room


def _body(model: BaseChatModel) -> dict[str, Any]:
    """What the caller puts into every body.

    Raises:
        ModelSetupError: The model does not speak OpenAI's protocol.
    """
    if not hasattr(model, "extra_body"):
        msg = (
            f"{type(model).__name__} does not speak OpenAI's protocol, as this cap policy does. Use"
            " ChatOpenAI with the base_url of your server, or leave cap_policy out; to give "
            "solver and planner different policies, pass ChatClient(model, policy) for each."
        )
        raise ModelSetupError(msg)
    body: dict[str, Any] = model.extra_body or {}
    return body
