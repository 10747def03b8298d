"""The chat models and the planner of a graph and of its runs, made on first use."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from pb_graph.models.caps import CapPolicy
from pb_graph.models.client import ChatClient, ModelClient
from pb_graph.models.resolve import (
    LOCAL_PREFIX,
    check_local_name,
    client_of,
    model_name,
    resolve,
    retry_policy_for,
)
from pb_graph.models.retry import RetryPolicy
from pb_graph.program import HasPlanner, PlannerProgram
from pb_graph.settings import Context, Settings

if TYPE_CHECKING:
    from pb_graph.budget.account import Budget
    from pb_graph.planner.planner import Planner
    from pb_graph.planner.planner import Program as Program  # noqa: PLC0414 -- for others, too
else:  # whoever reads annotations at run time is not to load DSPy for it
    Program = PlannerProgram | str | Path | Any

Model = BaseChatModel | Runnable[Any, Any] | ModelClient | str | None
Role = Literal["solver", "easy", "planner", "estimator"]
"""What a model is asked for."""

V = TypeVar("V")
_MOST_KEPT = 64


class _Made(Generic[V]):
    """The things used last, each made once, also when many ask for it at the same time."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, tuple[object, V]] = OrderedDict()
        self._lock = threading.Lock()
        self._making: defaultdict[Hashable, threading.Lock] = defaultdict(threading.Lock)

    def at_hand(self, key: Hashable) -> V | None:
        """What was made for a key; never waits for what is being made."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][1]

    def get(self, key: Hashable, make: Callable[[], V], source: object = None) -> V:
        """What was made for a key, else make it. An ``id`` is a key only with its ``source``."""
        with self._lock:
            making = self._making[key]
        try:
            with making:
                value = self.at_hand(key)
                if value is None:
                    value = make()
                    with self._lock:
                        self._values[key] = (source, value)
                        while len(self._values) > _MOST_KEPT:
                            self._values.popitem(last=False)
                return value
        finally:
            self._making.pop(key, None)


class ModelRegistry:
    """The models and the planner behind a graph.

    Provider models are made at once, so that a wrong name or a missing key shows when the graph is
    built. Local ones, and the default, wait for the first question: a module-level graph must be
    importable without loading a gigabyte.

    Args:
        model: Solves: a chat model, a client for one, ``provider:model``, ``local:NAME``, or None
            for the default.
        planner: Plans; None for the same as ``model``.
        settings: Of the graph.
        program: The planner's prompts: a `Planner`, a saved program or its path, or None for ours.
        cap_policy: How a cap becomes the models' arguments; None chooses by a model's class.
        shared_budget: What all calls draw on.
        estimator: Estimates; None for the same as plans.
        easy: Solves what is of a low level; None for the same as ``model``.

    Raises:
        ModelSetupError: A model cannot be made from what was given.
        PlannerProgramError: The saved planner does not fit.
    """

    def __init__(  # noqa: PLR0913, PLR0917 -- the parts of a graph
        self,
        model: Model,
        planner: Model,
        settings: Settings,
        program: Program | None = None,
        cap_policy: CapPolicy | None = None,
        shared_budget: Budget | None = None,
        *,
        estimator: Model = None,
        easy: Model = None,
    ) -> None:
        self._settings = settings
        self._estimator, self._easy = estimator, easy
        self._shared_budget = shared_budget
        self._model, self._planner = model, planner
        self._program = program
        self._cap_policy = cap_policy
        self._clients: _Made[ModelClient] = _Made()
        self._planners: _Made[Planner] = _Made()
        self._files: _Made[PlannerProgram] = _Made()
        for given in (model, planner, estimator, easy):
            if isinstance(given, str) and given.startswith(LOCAL_PREFIX):
                check_local_name(given)
            elif given is not None:
                self.client(given, settings)
        if program is not None:
            self.load_planner(None)

    def model_for(self, role: Role, context: Context) -> Model:
        """The model of a role: the run's own, else the graph's, else that which it stands in for.

        A run that names a model of its own has all solving done by it, and likewise all planning.
        """
        if role == "easy" and self._easy is not None and context.model is None:
            return self._easy
        solver = context.model or self._model
        if role in ("solver", "easy"):
            return solver
        if role == "estimator" and self._estimator is not None and context.planner is None:
            return self._estimator
        return context.planner or self._planner or solver

    def shared_budget(self, context: Context) -> Budget | None:
        """The run's own shared budget, else the graph's."""
        return context.shared_budget or self._shared_budget

    def program(self, context: Context) -> Program | None:
        """The run's own planner program if it brings one, else the graph's."""
        return self._program if context.planner_program is None else context.planner_program

    def client_at_hand(self, model: Model, settings: Settings) -> ModelClient | None:
        """The client for a model, if nothing has to be made for it."""
        if isinstance(model, ModelClient):
            return model
        return self._clients.at_hand(_key(model, settings))

    def client(self, model: Model, settings: Settings) -> ModelClient:
        """The client for a model, with the time-out and the retries of these settings.

        Raises:
            ModelSetupError: It is no chat model, or cannot be made from its name.
        """
        if isinstance(model, ModelClient):
            return model

        def make() -> ModelClient:
            if not isinstance(model, str | None):
                return client_of(model, self._cap_policy, RetryPolicy(settings.max_retries))
            made = resolve(model_name(model), settings)
            return ChatClient(made, self._cap_policy, retry_policy_for(model, settings))

        return self._clients.get(_key(model, settings), make, source=model)

    def planner_at_hand(self, program: Program | None) -> Planner | None:
        """The planner of a run's program, if nothing has to be loaded or looked up for it."""
        program = self._program if program is None else program
        return None if isinstance(program, str | Path) else self._planners.at_hand(id(program))

    def load_planner(self, program: Program | None) -> Planner:
        """The planner of a run's program, or of the graph's; a file is read when it has changed.

        Raises:
            PlannerProgramError: The saved planner does not fit, or cannot be read.
        """
        from pb_graph.planner import engine, planner  # noqa: F401, PLC0415 -- DSPy takes a second

        program = self._program if program is None else program
        if isinstance(program, HasPlanner):
            return cast("Planner", program.prompts)  # as they are now
        key = _stamp(program) if isinstance(program, str | Path) else id(program)
        return self._planners.get(key, lambda: planner.load_planner(program), source=program)

    async def settings_of(self, context: Context, *, blocking: bool) -> Settings:
        """The settings of a run: the graph's or its own program's, and over them what it sets."""
        program = context.planner_program
        if isinstance(program, str | Path):
            program = (
                self._loaded(program)
                if blocking
                else await asyncio.to_thread(self._loaded, program)
            )
        own = program.settings if isinstance(program, PlannerProgram | HasPlanner) else None
        return context.settings_over(own or self._settings)

    def _loaded(self, path: str | Path) -> PlannerProgram:
        return self._files.get(_stamp(path), lambda: PlannerProgram.load(path))


def _key(model: Model, settings: Settings) -> Hashable:
    """What bears on a client. A model object keeps its own time limit; one made here has ours."""
    if isinstance(model, str | None):
        return (model, settings.timeout, settings.max_retries)
    return (id(model), settings.max_retries)


def _stamp(path: str | Path) -> Hashable:
    """Which file there is, in which state; one that is missing is found out when it is read."""
    try:
        status = Path(path).stat()
    except OSError:
        return str(path)
    return (str(path), status.st_mtime_ns, status.st_size)
