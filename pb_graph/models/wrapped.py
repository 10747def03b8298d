"""Chat models that LangChain has wrapped: bound, with fallbacks, or configurable at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableWithFallbacks, ensure_config
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable

from pb_graph.errors import ModelSetupError
from pb_graph.models.caps import CAP_NAMES
from pb_graph.models.client import ChatClient, FallbackClient, ModelClient

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pb_graph.models.caps import CapPolicy
    from pb_graph.models.retry import RetryPolicy

_REPLACED = {
    "tools": "give tools as build_graph(tools=[...])",
    "response_format": "give the type of the answer as build_graph(response_format=...)",
}


def client_of(
    model: object,
    policy: CapPolicy | None,
    retry_policy: RetryPolicy,
    bound: dict[str, Any] | None = None,
) -> ModelClient:
    """The client for a chat model, however wrapped; each fallback gets its own cap policy.

    What was bound goes with every call, but for a token cap, which is the budget's to say. How
    often a call is tried again is for `Settings.max_retries` to say, also under ``with_retry``.

    Raises:
        ModelSetupError: There is something else than a chat model within, or tools are bound.
    """
    bound = bound or {}
    if isinstance(model, BaseChatModel):
        fields = {name: value for name, value in bound.items() if name in type(model).model_fields}
        rest = {name: bound[name] for name in bound.keys() - fields.keys()}
        chat = model.model_copy(update=fields) if fields else model
        return ChatClient(chat, policy, retry_policy, arguments=rest)
    if isinstance(model, RunnableWithFallbacks):
        first, *others = (
            client_of(one, policy, retry_policy, bound)
            for one in (model.runnable, *model.fallbacks)
        )
        return FallbackClient(first, others)
    if isinstance(model, RunnableBindingBase):
        return client_of(model.bound, policy, retry_policy, _bound_by(model) | bound)
    if (chosen := configured(model)) is not None:
        return client_of(chosen, policy, retry_policy, bound)
    msg = (
        f"{type(model).__name__} is no chat model. Pass 'provider:model', or a chat model object, "
        "alone or with fallbacks, bound arguments or configurable fields."
    )
    raise ModelSetupError(msg)


def choices_in(model: object) -> Hashable:
    """What the run's config chooses about a configurable model; the same for every other."""
    if isinstance(model, RunnableWithFallbacks):
        return tuple(map(choices_in, (model.runnable, *model.fallbacks)))
    if isinstance(model, RunnableBindingBase):
        return choices_in(model.bound)
    if isinstance(model, DynamicRunnable):
        chosen = ensure_config(model.config).get("configurable", {})
        return repr([chosen.get(spec.id) for spec in model.config_specs])
    found = getattr(type(model), "_model_params", None)
    return repr(sorted(found(model, None).items())) if found else None


def configured(model: object) -> Runnable[Any, Any] | None:
    """The model that a configurable one stands for in this run; None for anything else."""
    if isinstance(model, DynamicRunnable):
        return model.prepare()[0]
    # What `init_chat_model(configurable_fields=...)` makes has no public way to ask this.
    found = getattr(type(model), "_model", None)
    return cast("Runnable[Any, Any]", found(model)) if found else None


def _bound_by(binding: RunnableBindingBase[Any, Any]) -> dict[str, Any]:
    """Arguments of a binding, and of its config what can be a part of the model."""
    for name, way in _REPLACED.items():
        if name in binding.kwargs:
            msg = f"A model with bound {name} cannot keep a budget: {way}."
            raise ModelSetupError(msg)
    # The budget takes the place of a bound cap; other words for it would go out beside ours.
    kept = {name: value for name, value in binding.kwargs.items() if name not in CAP_NAMES}
    config: Any = binding.config or {}
    return kept | {
        name: config[name] for name in ("callbacks", "tags", "metadata") if config.get(name)
    }
