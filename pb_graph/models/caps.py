"""A budget in each provider's own words: the arguments that bound one model call."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may use.

    Attributes:
        cap: Completion tokens, reasoning included.
        timeout: Seconds.
        schema: JSON schema that the reply should follow, where the server can see to it.
    """

    cap: int
    timeout: float
    schema: dict[str, Any] | None = None


CapPolicy = Callable[["BaseChatModel", Limits], dict[str, Any]]
"""Turns limits into the keyword arguments that one call of a model understands."""

_OPENAI_HOSTS = ("api.openai.com", "openai.azure.com")
_OPENAI_NAMES = re.compile(r"^(gpt-(?!oss)|o\d|chatgpt-)")
_CAP_FIELDS = ("max_tokens", "max_output_tokens", "num_predict", "max_new_tokens")


def policy_for(model: BaseChatModel) -> CapPolicy:
    """The policy that fits a chat model object."""
    if any(base.__name__ == "BaseChatOpenAI" for base in type(model).__mro__):
        return openai_compatible
    return plain


def plain(model: BaseChatModel, limits: Limits) -> dict[str, Any]:
    """Any LangChain chat model: the output cap under the name of the field it declares."""
    fields = type(model).model_fields
    name = next((name for name in _CAP_FIELDS if name in fields), "max_tokens")
    return {name: limits.cap}


def openai_compatible(model: BaseChatModel, limits: Limits) -> dict[str, Any]:
    """OpenAI and the many servers that speak its protocol.

    OpenAI's own models count reasoning and answer in ``max_completion_tokens``, which is what
    LangChain sends. Other servers know the older ``max_tokens``, and some ignore the newer name
    without a word, which would lift the cap; there it goes into the body under the old name.
    """
    settings: Any = model
    body: dict[str, Any] = dict(settings.extra_body or {})
    bound: dict[str, Any] = {}
    if _speaks_new_name(settings) or settings.max_tokens is not None:
        bound["max_tokens"] = limits.cap
    if not _speaks_new_name(settings):
        body["max_tokens"] = limits.cap
    if limits.schema is not None:
        # In the body, because the client's own response_format raises on a truncated reply.
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": limits.schema},
        }
    if body:
        bound["extra_body"] = body
    if settings.request_timeout is None:
        bound["timeout"] = limits.timeout
    return bound


def _speaks_new_name(model: Any) -> bool:  # noqa: ANN401 -- any OpenAI-like chat model
    """Whether the cap goes out as LangChain sends it (OpenAI itself, Azure, the Responses API)."""
    # The SDK below may have taken its address from OPENAI_BASE_URL, which the model does not show.
    base = str(model.openai_api_base or getattr(model.root_client, "base_url", ""))
    return (
        not base
        or any(host in base for host in _OPENAI_HOSTS)
        or bool(model.use_responses_api)
        or bool(_OPENAI_NAMES.match(model.model_name))
    )
