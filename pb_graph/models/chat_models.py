"""Read the name and server of a chat model object, and make the copies that calls need.

No provider's package is imported here: a model is known by the names of its classes.
"""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar
from urllib.parse import urlsplit

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.language_models import BaseChatModel

M = TypeVar("M", bound=BaseChatModel)

# Private names of LangChain's models: the package uses them only through these.
calls_of = attrgetter("_generate_with_cache", "_agenerate_with_cache")
identity_of = attrgetter("_identifying_params")
llm_type_of = attrgetter("_llm_type")
ls_params_of = attrgetter("_get_ls_params")
_uses_responses_of = attrgetter("_use_responses_api")
_NAMES = ("model_name", "model", "model_id", "deployment_name")


def name_of(model: BaseChatModel) -> str:
    """Return the provider's name of a model, or the name of its class."""
    names = (getattr(model, name, None) for name in _NAMES)
    return next((name for name in names if isinstance(name, str) and name), type(model).__name__)


def key_of(model: BaseChatModel) -> str:
    """Return a model's name with its provider, or with the address of another server."""
    if is_openai_like(model) and address_of(model):
        return describe_model(model)
    provider = ls_params_of(model)().get("ls_provider")  # as LangChain's tracers read it
    return f"{provider}:{name_of(model)}" if provider else name_of(model)


def describe_model(model: BaseChatModel) -> str:
    """Return a model's name and the address of its server, without user, password and query."""
    url = address_of(model) if is_openai_like(model) else getattr(model, "base_url", None)
    parts = urlsplit(url or "")
    host = parts.netloc.rpartition("@")[2]
    return f"{name_of(model)} at {parts.scheme}://{host}{parts.path}" if host else name_of(model)


def classes_of(model: BaseChatModel) -> list[str]:
    """Return the names of a model's class and its base classes, such as ``langchain_x.ChatX``."""
    return [f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(model).__mro__]


def is_openai_like(model: BaseChatModel) -> bool:
    """Return whether a model is LangChain's client for OpenAI's protocol."""
    return "langchain_openai.BaseChatOpenAI" in classes_of(model)


def uses_responses(model: BaseChatModel) -> bool:
    """Return whether an OpenAI-like model calls the Responses API."""
    return bool(_uses_responses_of(model)({}))


def address_of(model: BaseChatModel) -> str:
    """Return the base URL of an OpenAI-like model's server; empty if it has none."""
    settings: Any = model
    # The SDK below may have taken its address from OPENAI_BASE_URL, which the model does not show.
    client = settings.root_client or settings.root_async_client
    return str(getattr(client, "base_url", None) or settings.openai_api_base or "")


def with_callback(model: M, handler: BaseCallbackHandler) -> M:
    """Return a copy of a model that tells one more handler of its calls, besides the run's own."""
    own = model.callbacks
    handlers = own.handlers if isinstance(own, BaseCallbackManager) else own or ()
    return model.model_copy(update={"callbacks": [*handlers, handler]})


def copy_for_attempts(model: M) -> M:
    """Return a copy of a chat model whose own client never repeats a request.

    An attempt that is repeated inside a provider's SDK may be billed, and is never seen here. A
    model whose class has no ``max_retries`` is returned as it is.

    LangChain's client for OpenAI's protocol also shares open connections between all models of an
    address. A connection of an event loop that has ended is dead, and a call on it may be billed:
    so each asynchronous call opens its own.
    """
    if "max_retries" not in type(model).model_fields:
        return model
    # Google's clients count attempts: 1 means no retries, and 0 the default.
    is_googles = any(kind.startswith("langchain_google") for kind in classes_of(model))
    changed: dict[str, Any] = {"max_retries": 1 if is_googles else 0}
    for side, headers in (("client", {}), ("async_client", {"Connection": "close"})):
        if sdk := getattr(model, f"root_{side}", None):
            sdk = sdk.with_options(max_retries=0, default_headers=headers)
            changed |= {f"root_{side}": sdk, side: sdk.chat.completions}
    copy = model.model_copy(update=changed)
    for kind in type(model).__mro__:  # clients that Anthropic's model cached in an earlier call
        for name in [name for name, own in vars(kind).items() if isinstance(own, cached_property)]:
            vars(copy).pop(name, None)
    return copy
