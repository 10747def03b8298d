"""Set up the models of a run with stored replies, and the digests that identify them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.language_models import BaseChatModel

from optim.datasets.dataset import digest
from optim.evaluation.store import CachedClient
from pb_graph.errors import InputError
from pb_graph.local import server, weights
from pb_graph.local.weights import LOCAL_PREFIX
from pb_graph.models.client import ChatClient, ModelClient, RetryPolicy
from pb_graph.models.resolve import model_name, resolve

if TYPE_CHECKING:
    from optim.evaluation.store import ReplyCache
    from pb_graph.models.caps import CapPolicy
    from pb_graph.settings import Settings

ModelSpec = BaseChatModel | str | None
"""A model as `build_graph` takes it."""

# May differ between the machines of one evaluation, and after a restart.
_ENDPOINTS = ("openai_api_base", "base_url", "azure_endpoint", "endpoint")


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a run.

    Attributes:
        solver: Solves.
        planner: Plans and estimates.
        solver_identity: Identifies the solver, on every machine.
        planner_identity: The same for the planner.
        model: Name of the solver in logs.
        planner_model: Name of the planner in logs.
        temperature: Temperature of the solver. None for the provider's default.
    """

    solver: ModelClient
    planner: ModelClient
    solver_identity: str
    planner_identity: str
    model: str
    planner_model: str
    temperature: float | None = None


def build_models(  # noqa: PLR0913 -- all but two by name
    model: ModelSpec,
    planner: ModelSpec,
    *,
    settings: Settings,
    cache: ReplyCache,
    cap_policy: CapPolicy | None = None,
    temperature: float | None = None,
) -> Models:
    """Set up solver and planner. A local model is fetched and started here.

    Args:
        model: The model that solves.
        planner: The model that plans; None for the same.
        settings: Settings with the time limit and the retries.
        cache: Keeps the replies.
        cap_policy: As for `build_graph`.
        temperature: Replaces the temperature of the models, if the user has set one.

    Raises:
        InputError: If a chat model has no temperature.
        ModelSetupError: If a model cannot be set up.
        WeightsError: If the weights of a local model cannot be loaded.
    """
    solves = _client(model, settings, cap_policy, temperature)
    plans = solves if planner is None else _client(planner, settings, cap_policy, temperature)
    return Models(
        solver=CachedClient(*solves, cache),
        planner=CachedClient(*plans, cache, one_sample=True),
        solver_identity=solves[2],
        planner_identity=plans[2],
        model=solves[1],
        planner_model=plans[1],
        temperature=getattr(solves[0].model, "temperature", None),
    )


def model_identity(model: BaseChatModel, name: str | None) -> str:
    """Identify a chat model by its name, class and parameters, but not by its server's address.

    Args:
        model: The chat model object.
        name: The string it was made from, or None. A local model is known by its name in the
            catalog or by that of its file.
    """
    if name is not None and name.startswith(LOCAL_PREFIX):
        return LOCAL_PREFIX + Path(name.removeprefix(LOCAL_PREFIX)).name
    fields = dict(model._identifying_params or _provider_fields(model))  # noqa: SLF001 -- LangChain's word for it
    parameters = {name: fields[name] for name in fields if name not in _ENDPOINTS}
    # The text of an object may hold an address in memory; its type does not.
    plain = json.loads(json.dumps(parameters, default=lambda value: type(value).__qualname__))
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    return digest([kind, name, plain])


def _provider_fields(model: BaseChatModel) -> dict[str, object]:
    """Return the fields that a LangChain package declares, for models such as ChatOllama.

    Fields of the user's own classes are left out, because they may change between calls.
    """
    declared = {
        name
        for base in type(model).__mro__
        if base.__module__.startswith("langchain_")
        for name in getattr(base, "model_fields", ())
    }
    own = declared - BaseChatModel.model_fields.keys()
    return {name: getattr(model, name) for name in sorted(own)}


def _client(
    spec: ModelSpec, settings: Settings, cap_policy: CapPolicy | None, temperature: float | None
) -> tuple[ChatClient, str, str]:
    """Return the client of a model, its name in logs, and its identity."""
    sampling = {} if temperature is None else {"temperature": temperature}
    name = label = None
    if isinstance(spec, BaseChatModel):
        if not sampling.keys() <= type(spec).model_fields.keys():
            msg = f"{type(spec).__name__} has no temperature. Configure the model object instead."
            raise InputError(msg)
        model = spec.model_copy(update=sampling)
    else:
        name = label = model_name(spec)
        file = name.removeprefix(LOCAL_PREFIX)
        weights.fetch_if_named(name)
        model = resolve(name, settings, **sampling)
        if file != name:
            label = LOCAL_PREFIX + server.public_name(file)
    client = ChatClient(model, cap_policy, RetryPolicy(settings.max_retries))
    suffix = "" if temperature is None else f" temperature={temperature}"
    return client, label or client.name, model_identity(model, name) + suffix
