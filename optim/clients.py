"""The models of an evaluation, wrapped so that calls are noted, counted, and plans are shared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_core.language_models import BaseChatModel

from optim.answering import Staff
from optim.fingerprint import model_identity, planner_identity
from optim.shared_plans import SharedPlans
from optim.witness import Witness
from pb_graph.models import catalogue, local, weights
from pb_graph.models.client import ChatClient
from pb_graph.models.resolve import LOCAL_PREFIX, model_name, patience_for, resolve

if TYPE_CHECKING:
    from pathlib import Path

    from optim.journal import Journal
    from pb_graph.models.caps import CapPolicy
    from pb_graph.planner.planner import Planner
    from pb_graph.settings import Settings

__all__ = ["Given", "hire"]

Given = BaseChatModel | str | None
"""A model as `build_graph` takes it."""


@dataclass(frozen=True, slots=True)
class _Model:
    client: ChatClient
    name: str
    identity: str


def hire(  # noqa: PLR0913 -- all but two by name
    model: Given,
    planner: Given,
    *,
    program: Planner | str | Path | None,
    settings: Settings,
    plans: Journal,
    pay: Callable[[int], None],
    cap_policy: CapPolicy | None = None,
) -> Staff:
    """Set up who solves and who plans. A local model is fetched and started here.

    Args:
        model: Solves.
        planner: Plans; None for the same model.
        program: A tuned planner, or the path of a saved one.
        settings: Their time-out and retries are the models'.
        plans: Keeps the planner's replies.
        pay: Told the completion tokens of every call that is really made.
        cap_policy: As for `build_graph`.

    Raises:
        ModelSetupError: A model cannot be set up.
        PlannerProgramError: The saved planner does not fit.
        WeightsError: The weights of a local model cannot be had.
    """
    solves = _model(model, settings, cap_policy)
    thinks = solves if planner is None else _model(planner, settings, cap_policy)
    tuned = _program(program)
    identity = planner_identity(thinks.identity, tuned)
    shared = SharedPlans(thinks.client, plans, identity, pay)
    return Staff(
        solver=Witness(solves.client, solves.name, pay),
        planner=Witness(shared, thinks.name),
        program=tuned,
        solver_identity=solves.identity,
        planner_identity=identity,
        model=solves.name,
        planner_model=thinks.name,
    )


def _model(given: Given, settings: Settings, cap_policy: CapPolicy | None) -> _Model:
    if isinstance(given, BaseChatModel):
        client = ChatClient(given, cap_policy, patience_for(given, settings))
        return _Model(client, _name_of(given), model_identity(given, None))
    name = model_name(given)
    wanted = name.removeprefix(LOCAL_PREFIX)
    if wanted in catalogue.CATALOGUE and not weights.installed(wanted):
        with weights.progress_bar() as progress:
            weights.fetch(wanted, progress=progress)
    model = resolve(name, settings)
    client = ChatClient(model, cap_policy, patience_for(name, settings))
    shown = LOCAL_PREFIX + local.public_name(wanted) if name.startswith(LOCAL_PREFIX) else name
    return _Model(client, shown, model_identity(model, name))


def _name_of(model: BaseChatModel) -> str:
    for field in ("model_name", "model"):
        name = getattr(model, field, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__


def _program(given: Planner | str | Path | None) -> Planner | None:
    if given is None:
        return None
    from pb_graph.planner.planner import load_planner  # noqa: PLC0415 -- DSPy takes a second

    return load_planner(given)
