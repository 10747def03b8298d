"""The policy for Ollama, by its own API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pb_graph.models.caps.effort import MIN_THINKING
from pb_graph.models.caps.limits import policy

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

# Ollama's options that its chat model has fields for.
_OPTIONS = (
    *("mirostat", "mirostat_eta", "mirostat_tau", "num_ctx", "num_gpu", "num_thread"),
    *("repeat_last_n", "repeat_penalty", "temperature", "seed", "stop", "tfs_z", "top_k", "top_p"),
)


@policy(cls="langchain_ollama.ChatOllama")
def ollama(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    """Ollama: ``num_predict``, which includes thinking, and thinking on or off.

    It has no thinking budget. Where fewer than 1,024 tokens are left for thinking, that is switched
    off, unless the caller has set it; gpt-oss cannot do without and is asked for a low level.
    Models that do not think take 'off' without complaint.

    Checked: the requests, with langchain-ollama 1.1. Not checked against a running Ollama.
    """
    settings: Any = model
    # The cap alone would be refused, and options that are given replace all of the caller's.
    given = {name: getattr(settings, name, None) for name in _OPTIONS}
    options = {name: value for name, value in given.items() if value is not None}
    bound: dict[str, Any] = {"options": {**options, "num_predict": limits.cap}}
    tight = (
        limits.thinking == "bounded"
        and limits.thinking_room < MIN_THINKING
        and settings.reasoning is None
    )
    if limits.thinking == "off" or tight:
        bound["reasoning"] = "low" if "gpt-oss" in settings.model else False
    return bound
