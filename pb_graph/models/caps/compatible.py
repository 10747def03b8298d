"""What all servers that speak OpenAI's protocol have in common, and the policy for unknown ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pb_graph.models.caps.limits import policy

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from pb_graph.models.options import CallOptions

# Of the caller's own in the body: servers take one of them beside ours, and not the lower one.
_CAPS = frozenset({"max_tokens", "max_completion_tokens"})
_OPENAI_NAMES = re.compile(r"^(gpt-(?!oss)|o\d|chatgpt-)")


def without_cap(model: BaseChatModel) -> dict[str, Any]:  # noqa: ARG001 -- as every change
    """The caller's cap goes: LangChain would send it beside ours, under the new name."""
    return {"max_tokens": None}


@policy(change=without_cap)
def openai_compatible(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    """A server that speaks OpenAI's protocol, and of which nothing else is known.

    OpenAI's own models, also behind a gateway, count reasoning and answer in
    ``max_completion_tokens``, which is what LangChain sends. Other servers know the older
    ``max_tokens``, and some ignore the newer name without a word, which would lift the cap; there
    it goes into the body under the old name. How the model thinks is left alone: for vLLM, SGLang
    and llama.cpp, which cannot be told apart from here, there are policies of their own.
    """
    settings: Any = model
    bound = {"max_tokens": limits.cap, **timeout_argument(model, limits)}
    if settings.use_responses_api:
        return bound | text_format(model, limits)
    if _OPENAI_NAMES.match(settings.model_name or ""):
        return bound | with_body(model, response_format(limits))
    return capped_body(model, limits, response_format(limits))


def capped_body(model: BaseChatModel, limits: CallOptions, extra: dict[str, Any]) -> dict[str, Any]:
    """Arguments that put ``max_tokens``, under this old name, and ``extra`` into the body."""
    settings: Any = model
    bound = timeout_argument(model, limits)
    # LangChain would send the caller's own cap beside ours; responses have another name for it.
    if settings.max_tokens is not None or settings.use_responses_api:
        bound["max_tokens"] = limits.cap
    return bound | with_body(model, {"max_tokens": limits.cap} | extra)


def with_body(model: BaseChatModel, extra: dict[str, Any]) -> dict[str, Any]:
    """``extra`` as part of the body, beside what the caller puts there (binding replaces that)."""
    settings: Any = model
    own = settings.extra_body or {}
    kept = {name: value for name, value in own.items() if name not in _CAPS}
    return {"extra_body": kept | extra} if extra or kept != own else {}


def response_format(limits: CallOptions) -> dict[str, Any]:
    """The schema for chat completions.

    In the body, because the client's own ``response_format`` raises on a truncated reply.
    """
    if limits.schema is None:
        return {}
    schema = {"name": "reply", "schema": limits.schema}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def text_format(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    """The schema for the Responses API, which calls it ``text.format``."""
    if limits.schema is None:
        return {}
    form = {"type": "json_schema", "name": "reply", "schema": limits.schema, "strict": False}
    settings: Any = model
    return {"text": {**settings.model_kwargs.get("text", {}), "format": form}}


def timeout_argument(model: BaseChatModel, limits: CallOptions) -> dict[str, Any]:
    """Our time-out, for a model that has none of its own."""
    settings: Any = model
    return {"timeout": limits.timeout} if settings.request_timeout is None else {}


def is_openai_like(model: BaseChatModel) -> bool:
    """Whether a model is LangChain's client for OpenAI's protocol; no package is imported."""
    kinds = ((kind.__module__.split(".")[0], kind.__name__) for kind in type(model).__mro__)
    return ("langchain_openai", "BaseChatOpenAI") in kinds


def sdk_options(model: Any, side: str, **options: Any) -> dict[str, Any]:  # noqa: ANN401
    """Fields of a copy of an OpenAI-like model whose SDK has other options.

    For calls that block (``client``), or for those that are awaited (``async_client``).
    """
    sdk = getattr(model, f"root_{side}").with_options(**options)
    return {f"root_{side}": sdk, side: sdk.chat.completions}


def host_of(model: BaseChatModel) -> str:
    """The host name of an OpenAI-like model's server; empty for OpenAI's own by default."""
    return urlsplit(address_of(model)).hostname or ""


def address_of(model: BaseChatModel) -> str:
    """The base URL of an OpenAI-like model's server; empty when it has none."""
    settings: Any = model
    # The SDK below may have taken its address from OPENAI_BASE_URL, which the model does not show.
    client = settings.root_client or settings.root_async_client
    return str(getattr(client, "base_url", None) or settings.openai_api_base or "")
