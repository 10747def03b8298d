"""The chat models and the planner of a graph and of its runs, made on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from pb_graph.budget.account import Budget
from pb_graph.local.weights import LOCAL_PREFIX
from pb_graph.models.caps import CapPolicy
from pb_graph.models.client import ModelClient, RetryPolicy
from pb_graph.models.resolve import client_of, model_name, resolve
from pb_graph.program import PlannerProgram
from pb_graph.settings import Context, Settings

if TYPE_CHECKING:
    from pb_graph.planner.planner import Planner

Model = BaseChatModel | Runnable[Any, Any] | ModelClient | str | None
Program = PlannerProgram | str | Path | Any
"""The planner's prompts: a `Planner`, a `PlannerProgram` or its path, or an object with ``prompts``
and ``settings``, such as `optim.tuning.GraphProgram`. `Any`, as importing `Planner` loads DSPy."""
Role = Literal["solver", "easy", "planner", "estimator"]
"""The task that a model is asked to do."""

_MAX_MADE = 1000


class Models:
    """The models and the planner behind a graph, by name or by object.

    Provider models are made at once, so that a wrong name or a missing key shows when the graph is
    built. Local models, and the default, wait for the first question: a module-level graph must be
    importable without loading a gigabyte.

    Args:
        settings: The settings of the graph. None for those of `program`, else the defaults.
        solver: The model that solves: a chat model, a client for one, ``provider:model``,
            ``local:NAME``, or None for the default.
        planner: The model that plans; None for the same as `solver`.
        estimator: The model that estimates; None for the same as `planner`.
        easy: The model for questions and steps of level 1 or 2; None for the same as `solver`.
        program: The planner's prompts; None for the package's own.
        cap_policy: How a cap becomes the models' arguments; None chooses by a model's class.
        limit: Maximum completion tokens of a run, or a `Budget` that all runs share.

    Raises:
        InputError: If a setting is wrong.
        ModelSetupError: If a model cannot be made.
        InputError: If the saved planner does not fit.
    """

    def __init__(  # noqa: PLR0913 -- the parts of a graph
        self,
        settings: Settings | Mapping[str, Any] | None,
        solver: Model = None,
        *,
        planner: Model = None,
        estimator: Model = None,
        easy: Model = None,
        program: Program | None = None,
        cap_policy: CapPolicy | None = None,
        limit: int | Budget | None = None,
    ) -> None:
        self.program, self.limit, self.cap_policy = program, limit, cap_policy
        self._given = {"solver": solver, "planner": planner, "estimator": estimator, "easy": easy}
        # Created objects by key, with their source: its `id` is unique only while it lives.
        self._made: dict[Hashable, tuple[object, Any]] = {}
        self.refused: dict[tuple[str, str], int] = {}  # status of a refusal, by run and model
        self.replied: dict[str, bool] = {}  # whether a model, by its key, brought thinking
        self._lock = threading.Lock()
        base = self._settings_of(program) or Settings() if settings is None else settings
        self.settings = Settings.read(base)
        for model in self._given.values():
            if isinstance(model, str) and model.startswith(LOCAL_PREFIX):
                model_name(model)  # raises if the model is unknown
            elif model is not None:
                self.client(model, self.settings)
        if program is not None:
            self.planner(None)

    def model_for(self, role: Role, context: Context) -> Model:
        """Return the model of a role: of the run, of the graph, or of the role that it defaults to.

        If a run names its own model, that model does all the solving; the same applies to the
        planner.

        Args:
            role: Role of the model.
            context: The context of the run.
        """
        given = self._given
        if role in ("solver", "easy"):
            return context.model or given[role] or given["solver"]
        planner = context.planner or given[role] or given["planner"]
        return planner or context.model or given["solver"]

    def client(self, model: Model, settings: Settings) -> ModelClient:
        """Return the client for a model, with the time-out and the retries of these settings.

        Args:
            model: A model by name or by object.
            settings: The settings of the run. A model object keeps its own time limit.

        Raises:
            ModelSetupError: If the object is not a chat model, or the name cannot be resolved.
        """
        if isinstance(model, ModelClient):
            return model

        def make() -> ModelClient:
            chat_model = model
            if isinstance(model, str | None):
                chat_model = resolve(model_name(model), settings)
            return client_of(chat_model, self.cap_policy, RetryPolicy(settings.max_retries))

        key = model if isinstance(model, str | None) else id(model)
        client = self._get((key, settings.timeout, settings.max_retries), make, model)
        return cast("ModelClient", client)

    def planner(self, program: Program | None) -> Planner:
        """Return the planner of a run's program, or of the graph's.

        Args:
            program: The prompts; None for those of the graph. A file is read once.

        Raises:
            InputError: If the saved planner does not fit, or cannot be read.
        """
        from pb_graph.planner import engine, planner  # noqa: F401, PLC0415 -- DSPy takes a second

        program = self._read(self.program if program is None else program)
        if prompts := getattr(program, "prompts", None):
            return cast("Planner", prompts)  # a program that is being tuned changes its prompts
        key = ("planner", id(program))
        return cast("Planner", self._get(key, lambda: planner.load_planner(program), program))

    def run_settings(self, context: Context) -> Settings:
        """Return the settings of a run: its own settings over those of its program or the graph."""
        base = self._settings_of(context.planner_program)
        return (base or self.settings).merged_with(context.settings)

    def _settings_of(self, program: Program | None) -> Settings | None:
        settings: Settings | None = getattr(self._read(program), "settings", None)
        return settings

    def _read(self, program: Program | None) -> Program | None:
        """Return a program, which may be given as the path of its file."""
        if not isinstance(program, str | Path):
            return program
        path = program
        return self._get(("file", str(path)), lambda: PlannerProgram.load(path), path)

    def _get(self, key: Hashable, make: Callable[[], object], source: object) -> Any:  # noqa: ANN401
        entry = self._made.get(key)
        if entry is None:
            with self._lock:
                entry = self._made[key] = self._made.get(key) or (source, make())
                if len(self._made) > _MAX_MADE:  # a service may give each run its own model
                    del self._made[next(iter(self._made))]
        return entry[1]
