"""Resolve a chat model and its client from an object, a name, or the default."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableWithFallbacks

from pb_graph.errors import ModelSetupError, UnknownModelError, did_you_mean, how_to_install
from pb_graph.local import server, weights
from pb_graph.models.caps import CapPolicy
from pb_graph.models.client import ChatClient, FallbackClient, ModelClient, RetryPolicy
from pb_graph.models.options import TIMEOUT, classes_of
from pb_graph.models.provider_errors import redact
from pb_graph.settings import Settings


def model_name(spec: str | None) -> str:
    """Return the given model string, the one in ``PB_MODEL``, or the local default.

    A paid model is never chosen implicitly. Nothing is fetched or loaded.

    Raises:
        ModelSetupError: If no model is configured.
        UnknownModelError: If the string is not ``provider:model``, or no local model has this name.
    """
    name = spec or os.environ.get("PB_MODEL")
    if not name and find_spec("xllamacpp") is None:
        msg = "No model was given. Pass one ('openai:gpt-5-mini', or a chat model object), set "
        msg += f"PB_MODEL, or install the local one. {how_to_install('local')}"
        raise ModelSetupError(msg)
    name = name or weights.LOCAL_PREFIX + server.DEFAULT_MODEL
    provider, _, model = name.partition(":")
    if not (provider and model):
        msg = f"{name!r} is not the name of a model. Write 'provider:model', such as "
        msg += "'openai:gpt-5-mini', or a name that `pb-graph models` lists."
        raise UnknownModelError(msg)
    if provider == "local" and not server.is_path(model):
        weights.find(model)
    return name


def resolve(name: str, settings: Settings, **options: Any) -> BaseChatModel:  # noqa: ANN401
    """Make the chat model that a string names. A local one is fetched and served when needed.

    Args:
        name: ``provider:model``, ``local:NAME`` or ``local:/path.gguf``.
        settings: ``timeout`` is the model's time limit; without it a local model has an hour.
        **options: Further arguments of the chat model, such as ``temperature``.

    Raises:
        ModelSetupError: If the name, a package, a key or the weights of a local model are missing.
    """
    provider, _, model = name.partition(":")
    if provider == "local":
        return server.local_chat_model(model, timeout=settings.timeout or server.TIMEOUT, **options)
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 -- costs 0.7 s

    limit: dict[str, Any] = {"timeout": settings.timeout or TIMEOUT}
    if provider == "ollama":  # has no field for it
        limit = {"client_kwargs": limit}
    elif provider.startswith("bedrock"):  # would send it to the model
        limit = {}
    try:
        made: BaseChatModel = init_chat_model(model, model_provider=provider, **limit | options)
    except Exception as error:
        reason = " ".join(redact(str(error)).split())
        if not reason.startswith("Unsupported provider"):
            msg = f"Cannot set up {name!r}: {reason}"
            raise ModelSetupError(msg) from error
        close = did_you_mean(provider, set(re.findall(r"[\w-]+", reason)) - {provider})
        msg = f"no provider is called {provider!r}"
        raise UnknownModelError(msg + (close or f". {reason.rpartition('. ')[2]}")) from error
    return made


def client_of(model: object, policy: CapPolicy | None, retry_policy: RetryPolicy) -> ModelClient:
    """Return the client for a chat model object, alone or with fallbacks.

    Args:
        model: A chat model, or the result of its ``with_fallbacks``.
        policy: How options become arguments; None chooses by each model.
        retry_policy: How often a call that failed is tried again, before a fallback is asked.

    Raises:
        ModelSetupError: If the model has another type, or is a `BudgetedChatModel`.
    """
    if isinstance(model, RunnableWithFallbacks):
        return FallbackClient([client_of(each, policy, retry_policy) for each in model.runnables])
    if not isinstance(model, BaseChatModel):
        msg = f"{type(model).__name__} is not a chat model. Pass 'provider:model' or a chat model "
        msg += "object alone or with_fallbacks; set arguments in its constructor, tools in "
        raise ModelSetupError(msg + "build_graph(tools=…).")
    if "pb_graph.BudgetedChatModel" in classes_of(model):
        msg = "A BudgetedChatModel would reserve all tokens twice. Pass the model inside it, and "
        raise ModelSetupError(msg + "its budget as limit=…")
    return ChatClient(model, policy, retry_policy)
