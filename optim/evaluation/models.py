"""The models of a run, behind the cache of replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_core.language_models import BaseChatModel

from optim.evaluation.cache import CachedClient
from optim.evaluation.identity import ModelIdentity, model_identity, planner_identity
from pb_graph.errors import InputError
from pb_graph.local import server, weights
from pb_graph.models.client import ChatClient, ModelClient
from pb_graph.models.resolve import LOCAL_PREFIX, model_name, resolve, retry_policy_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from optim.evaluation.store import ReplyCache
    from pb_graph.models.caps import CapPolicy
    from pb_graph.planner.planner import Planner
    from pb_graph.settings import Settings

ModelSpec = BaseChatModel | str | None
"""A model as `build_graph` takes it."""


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
class _Model:
    client: ChatClient
    name: str
    identity: ModelIdentity

    @property
    def temperature(self) -> float | None:
        value: float | None = getattr(self.client.model, "temperature", None)
        return value

    def cached(self, cache: ReplyCache, *, one_sample: bool) -> CachedClient:
        known = self.name, str(self.identity)
        return CachedClient(self.client, *known, cache, one_sample=one_sample)


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
    chosen = dict(sampling or {})
    solves = _model(model, settings, cap_policy, chosen)
    thinks = solves if planner is None else _model(planner, settings, cap_policy, chosen)
    tuned = program_of(program)
    shared = not fresh_plans or thinks.temperature == 0
    return Models(
        solver=solves.cached(cache, one_sample=solves.temperature == 0),
        planner=thinks.cached(cache, one_sample=shared),
        program=tuned,
        solver_identity=solves.identity.parameters,
        planner_identity=planner_identity(thinks.identity.parameters, tuned),
        endpoints=(solves.identity.endpoint, thinks.identity.endpoint),
        model=solves.name,
        planner_model=thinks.name,
        temperature=solves.temperature,
    )


def program_of(program: Planner | str | Path | None) -> Planner | None:
    """Return a tuned planner, loaded where a path is given.

    Raises:
        PlannerProgramError: The saved planner does not fit.
    """
    if program is None:
        return None
    from pb_graph.planner.planner import load_planner  # noqa: PLC0415 -- DSPy takes a second

    return load_planner(program)


def _model(
    spec: ModelSpec,
    settings: Settings,
    cap_policy: CapPolicy | None,
    sampling: Mapping[str, float],
) -> _Model:
    if isinstance(spec, BaseChatModel):
        model = _with(spec, sampling)
        client = ChatClient(model, cap_policy, retry_policy_for(spec, settings))
        return _Model(client, client.name, model_identity(model, None, sampling))
    name = model_name(spec)
    wanted = name.removeprefix(LOCAL_PREFIX)
    weights.fetch_if_named(wanted)
    model = resolve(name, settings, **sampling)
    client = ChatClient(model, cap_policy, retry_policy_for(name, settings))
    shown = LOCAL_PREFIX + server.public_name(wanted) if name.startswith(LOCAL_PREFIX) else name
    return _Model(client, shown, model_identity(model, name, sampling))


def _with(model: BaseChatModel, sampling: Mapping[str, float]) -> BaseChatModel:
    """Return a copy with this sampling, in the place of its own."""
    for option in sampling.keys() - type(model).model_fields.keys():
        msg = f"{type(model).__name__} has no {option}. Configure the model object instead."
        raise InputError(msg)
    return model.model_copy(update=dict(sampling)) if sampling else model
