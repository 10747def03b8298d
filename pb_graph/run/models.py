"""The chat models and the planner of a graph and of its runs, made on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from typing_extensions import TypeIs

from pb_graph.answers import AnswerType
from pb_graph.budget.account import Budget
from pb_graph.budget.rates import Dollars
from pb_graph.context import Context
from pb_graph.local.weights import LOCAL_PREFIX
from pb_graph.models.caps import CapPolicy
from pb_graph.models.classes import FoundClass, find_class
from pb_graph.models.client import ModelClient, RetryPolicy
from pb_graph.models.reply import BLOCKING, IO, run_sync
from pb_graph.models.resolve import client_of, model_name, resolve
from pb_graph.program import PlannerProgram
from pb_graph.run.pause import OnUsedUp
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from pb_graph.planner.planner import Planner

Model = BaseChatModel | Runnable[Any, Any] | ModelClient | str | None
Program = PlannerProgram | str | Path | Any
"""The planner's prompts: a `Planner`, a `PlannerProgram` or its path, or an object with ``prompts``
and ``settings``, such as `optim.tuning.GraphProgram`. `Any`, as importing `Planner` loads DSPy."""
Role = Literal["solver", "easy", "planner", "estimator"]
"""The task that a model is asked to do."""

_MAX_MADE = 1000


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """The arguments of `build_graph` except models and settings."""

    prices: Dollars | None = None
    answer_type: AnswerType | None = None
    tools: tuple[BaseTool, ...] = ()
    on_used_up: OnUsedUp = "answer"


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
        InputError: If a setting is wrong, or the saved planner does not fit.
        ModelSetupError: If a model cannot be made.
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
        self.refused: dict[tuple[str, str], int | None] = {}  # statuses, by run and model
        self.replied: dict[str, bool] = {}  # whether a model, by its key, brought thinking
        self._lock = threading.Lock()
        if settings is None:
            settings = getattr(run_sync(self._read(program, BLOCKING)), "settings", None)
        self.settings = Settings.read(Settings() if settings is None else settings)
        for model in self._given.values():
            if isinstance(model, str) and model.startswith(LOCAL_PREFIX):
                model_name(model)  # raises if the model is unknown
            elif model is not None:
                run_sync(self.client(model, self.settings, BLOCKING))
        if program is not None:
            run_sync(self.planner(None, BLOCKING))

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

    async def client(self, model: Model, settings: Settings, io: IO) -> ModelClient:
        """Return the client for a model, with the time-out and the retries of these settings.

        Args:
            model: A model by name or by object.
            settings: The settings of the run. A model object keeps its own time limit.
            io: How to wait for a model that is made from its name.

        Raises:
            ModelSetupError: If the object is not a chat model, or the name cannot be resolved.
        """

        def make() -> ModelClient:
            if isinstance(model, ModelClient):
                return model
            chat_model = resolve(model_name(model), settings) if is_named(model) else model
            return client_of(chat_model, self.cap_policy, RetryPolicy(settings.max_retries))

        source = model if is_named(model) else id(model)
        key = (source, settings.timeout, settings.max_retries)
        return cast("ModelClient", await self._get(key, make, model, io))

    async def class_of(
        self, role: Role, context: Context, settings: Settings, io: IO
    ) -> FoundClass:
        """Return the class of the model of a role, and what told it.

        Args:
            role: Role of the model.
            context: The context of the run.
            settings: The settings of the run, which may name the class of the solver.
            io: How to wait for a model that is made from its name.
        """
        model, given = self.model_for(role, context), settings.model_class
        if given and (role == "solver" or model is self.model_for("solver", context)):
            return FoundClass(given, "given")
        if is_named(model) and (name := model_name(model)).startswith(LOCAL_PREFIX):
            return find_class(name)  # without loading its weights
        client = await self.client(model, settings, io)
        if thinks := self.replied.get(client.key):
            return FoundClass("thinking", "reply")
        key = ("class", id(client))
        _, found = self._made.get(key) or self._made.setdefault(
            key, (client, find_class(client.model))
        )
        is_plain = found.source == "default" and thinks is False
        return cast("FoundClass", found._replace(source="reply") if is_plain else found)

    async def planner(self, program: Program | None, io: IO) -> Planner:
        """Return the planner of a run's program, or of the graph's.

        Args:
            program: The prompts; None for those of the graph. A file is read once.
            io: How to wait for a file, and for DSPy, which takes a second to load.

        Raises:
            InputError: If the saved planner does not fit, or cannot be read.
        """
        program = await self._read(self.program if program is None else program, io)
        if prompts := getattr(program, "prompts", None):
            return cast("Planner", prompts)  # a program that is being tuned changes its prompts

        def make() -> Planner:
            from pb_graph.planner import engine, planner  # noqa: F401, PLC0415 -- they load DSPy

            return planner.load_planner(program)

        return cast("Planner", await self._get(("planner", id(program)), make, program, io))

    async def run_settings(self, context: Context, io: IO) -> Settings:
        """Return the settings of a run: its own over those of its program or the graph.

        Args:
            context: The context of the run, which may name the file of a program.
            io: How to wait for the file.
        """
        program = await self._read(context.planner_program, io)
        return (getattr(program, "settings", None) or self.settings).merged_with(context.settings)

    async def _read(self, program: Program | None, io: IO) -> Program | None:
        """Return a program, which may be given as the path of its file."""
        if not isinstance(program, str | Path):
            return program
        return await self._get(
            ("file", str(program)), lambda: PlannerProgram.load(program), program, io
        )

    async def _get(self, key: Hashable, make: Callable[[], object], source: object, io: IO) -> Any:  # noqa: ANN401
        """Return what was made for a key; make it first where it is missing."""
        if (entry := self._made.get(key)) is None:
            entry = await io.load(self._make, key, make, source)
        return entry[1]

    def _make(
        self, key: Hashable, make: Callable[[], object], source: object
    ) -> tuple[object, Any]:
        with self._lock:
            entry = self._made[key] = self._made.get(key) or (source, make())
            if len(self._made) > _MAX_MADE:  # a service may give each run its own model
                del self._made[next(iter(self._made))]
        return entry


def is_named(model: object) -> TypeIs[str | None]:
    """Return whether a model is given by its name, or is the default."""
    return model is None or isinstance(model, str)
