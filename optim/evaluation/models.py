"""The models of a run behind the store of replies, and the digests that identify them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.language_models import BaseChatModel

from optim.datasets.dataset import digest
from optim.evaluation.store import CachedClient
from pb_graph.errors import InputError
from pb_graph.local import server, weights
from pb_graph.models.client import ChatClient, ModelClient, RetryPolicy
from pb_graph.models.resolve import LOCAL_PREFIX, model_name, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.evaluation.store import ReplyCache
    from pb_graph.models.caps import CapPolicy
    from pb_graph.planner.planner import Planner
    from pb_graph.settings import Settings

ModelSpec = BaseChatModel | str | None
"""A model as `build_graph` takes it."""

_ENDPOINTS = ("openai_api_base", "base_url", "azure_endpoint", "endpoint")


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a run.

    Attributes:
        solver: Solves.
        planner: Plans and estimates.
        program: The tuned planner, or None.
        solver_identity: Tells the solver from other models, on every machine.
        planner_identity: The same for planner and program.
        model: Name of the solver in logs.
        planner_model: Name of the planner in logs.
        endpoints: Addresses of both servers, which may differ between machines.
        temperature: Of the solver. None for the provider's default.
    """

    solver: ModelClient
    planner: ModelClient
    program: Planner | None
    solver_identity: str
    planner_identity: str
    model: str
    planner_model: str
    endpoints: tuple[str, str] = ("", "")
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """A digest of a model's name, class and parameters, and one of its server's address.

    The address may differ between machines that share one evaluation.
    """

    parameters: str
    endpoint: str = ""

    def __str__(self) -> str:
        return digest([self.parameters, self.endpoint]) if self.endpoint else self.parameters


def build_models(  # noqa: PLR0913 -- all but two by name
    model: ModelSpec,
    planner: ModelSpec,
    *,
    program: Planner | str | Path | None,
    settings: Settings,
    cache: ReplyCache,
    cap_policy: CapPolicy | None = None,
    sampling: Mapping[str, float] | None = None,
    fresh_plans: bool = False,
) -> Models:
    """Set up solver and planner. A local model is fetched and started here.

    Raises:
        InputError: A chat model does not take the sampling.
        ModelSetupError: A model cannot be set up.
        PlannerProgramError: The saved planner does not fit.
        WeightsError: The weights of a local model cannot be had.
    """
    solves = _client(model, settings, cap_policy, sampling or {})
    plans = solves if planner is None else _client(planner, settings, cap_policy, sampling or {})

    def cached(found: _Client, *, is_repeated: bool) -> CachedClient:
        one_sample = is_repeated or found.temperature == 0
        identity = str(found.identity)
        return CachedClient(found.client, found.name, identity, cache, one_sample=one_sample)

    tuned = load_program(program)
    return Models(
        solver=cached(solves, is_repeated=False),
        planner=cached(plans, is_repeated=not fresh_plans),
        program=tuned,
        solver_identity=solves.identity.parameters,
        planner_identity=planner_identity(plans.identity.parameters, tuned),
        endpoints=(solves.identity.endpoint, plans.identity.endpoint),
        model=solves.name,
        planner_model=plans.name,
        temperature=solves.temperature,
    )


def load_program(program: Planner | str | Path | None) -> Planner | None:
    """Return a tuned planner, loaded where a path is given.

    Raises:
        PlannerProgramError: The saved planner does not fit.
    """
    if program is None:
        return None
    from pb_graph.planner.planner import load_planner  # noqa: PLC0415 -- DSPy takes a second

    return load_planner(program)


def model_identity(
    model: BaseChatModel, name: str | None, sampling: Mapping[str, float] | None = None
) -> ModelIdentity:
    """Identify a chat model.

    Args:
        model: The chat model object.
        name: The string it was made from, or None. A local model is known by its name in the
            catalog, whose bytes are pinned, or by the content of its file.
        sampling: Temperature and top-p, where the user has set them.
    """
    chosen = "".join(f" {option}={value}" for option, value in sorted((sampling or {}).items()))
    if name is not None and name.startswith(LOCAL_PREFIX):
        file = Path(name.removeprefix(LOCAL_PREFIX)).expanduser()
        if not file.is_file():
            return ModelIdentity(name + chosen)
        with file.open("rb") as bytes_of_weights:
            content = hashlib.file_digest(bytes_of_weights, "sha256").hexdigest()
        return ModelIdentity(f"{name} {content}{chosen}")
    fields = dict(model._identifying_params or _provider_fields(model))  # noqa: SLF001 -- LangChain's word for it
    parameters = {name: fields[name] for name in fields if name not in _ENDPOINTS}
    # The text of an object may hold an address in memory; its type does not.
    plain = json.loads(json.dumps(parameters, default=lambda value: type(value).__qualname__))
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    endpoints = [str(getattr(model, field, None) or "") for field in _ENDPOINTS]
    endpoint = digest(endpoints) if any(endpoints) else ""
    return ModelIdentity(digest([kind, name, plain]) + chosen, endpoint)


def planner_identity(model: str, program: Planner | None) -> str:
    """Identify a planner by its model, and by its tuned program if it has one."""
    return model if program is None else digest([model, program.dump_state()])


def _provider_fields(model: BaseChatModel) -> dict[str, object]:
    """Return the fields that a LangChain package declares, for models such as ChatOllama.

    Fields of a class of the user's own are left out: they may change from call to call.
    """
    declared = {
        name
        for base in type(model).__mro__
        if base.__module__.startswith("langchain_")
        for name in getattr(base, "model_fields", ())
    }
    own = declared - BaseChatModel.model_fields.keys()
    return {name: getattr(model, name) for name in sorted(own)}


@dataclass(frozen=True, slots=True)
class _Client:
    client: ChatClient
    name: str
    identity: ModelIdentity

    @property
    def temperature(self) -> float | None:
        value: float | None = getattr(self.client.model, "temperature", None)
        return value


def _client(
    spec: ModelSpec,
    settings: Settings,
    cap_policy: CapPolicy | None,
    sampling: Mapping[str, float],
) -> _Client:
    retries = RetryPolicy(settings.max_retries)
    if isinstance(spec, BaseChatModel):
        model, name = _with_sampling(spec, sampling), None
        client = ChatClient(model, cap_policy, retries)
        shown = client.name
    else:
        name = shown = model_name(spec)
        file = name.removeprefix(LOCAL_PREFIX)
        weights.fetch_if_named(file)
        model = resolve(name, settings, **sampling)
        client = ChatClient(model, cap_policy, retries)
        if file != name:
            shown = LOCAL_PREFIX + server.public_name(file)
    return _Client(client, shown, model_identity(model, name, sampling))


def _with_sampling(model: BaseChatModel, sampling: Mapping[str, float]) -> BaseChatModel:
    """Return a copy with this sampling, in the place of its own."""
    for option in sampling.keys() - type(model).model_fields.keys():
        msg = f"{type(model).__name__} has no {option}. Configure the model object instead."
        raise InputError(msg)
    return model.model_copy(update=dict(sampling)) if sampling else model
