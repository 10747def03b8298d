"""The policy for Ollama, by its own API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pb_graph.models.caps.effort import SOME

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.caps.limits import Limits


def ollama(model: BaseChatModel, limits: Limits) -> dict[str, Any]:
    """Ollama: ``num_predict``, which includes thinking, and thinking on or off.

    It has no thinking budget. Where fewer than 1,024 tokens are left for thinking, that is switched
    off, unless the caller has set it; gpt-oss cannot do without and is asked for a low level.
    Models that do not think take 'off' without complaint.

    Checked: the requests, with langchain-ollama 1.1. Not checked against a running Ollama.
    """
    settings: Any = model
    # As an argument of its own the cap would be refused, and options given replace all the
    # caller's, which only this method knows how to collect.
    options = settings._chat_params([])["options"]  # noqa: SLF001
    bound: dict[str, Any] = {"options": {**options, "num_predict": limits.cap}}
    tight = limits.thinking == "bounded" and limits.room < SOME and settings.reasoning is None
    if limits.thinking == "off" or tight:
        bound["reasoning"] = "low" if "gpt-oss" in settings.model else False
    return bound
