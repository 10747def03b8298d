"""The chat models and the planner of a graph and of its runs, made on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from pb_graph.budget.account import Budget
from pb_graph.budget.rules import QuestionLimit
from pb_graph.models.caps import CapPolicy
from pb_graph.models.client import ChatClient, ModelClient, RetryPolicy
from pb_graph.models.resolve import (
    LOCAL_PREFIX,
    check_local_name,
    client_of,
    model_name,
    resolve,
    retry_policy_for,
)
from pb_graph.program import HasPlanner, PlannerProgram
from pb_graph.settings import Context, Settings

if TYPE_CHECKING:
    from pb_graph.budget.rates import Dollars, Spending
    from pb_graph.planner.planner import Planner
    from pb_graph.planner.planner import Program as Program  # noqa: PLC0414 -- for others, too
else:  # whoever reads annotations at run time is not to load DSPy for it
    Program = PlannerProgram | str | Path | Any

Model = BaseChatModel | Runnable[Any, Any] | ModelClient | str | None
Role = Literal["solver", "easy", "planner", "estimator"]
"""The task that a model is asked to do."""

_MOST_RUNS = 1000


class Models:
    """The models and the planner behind a graph, by name or by object.

    Provider models are made at once, so that a wrong name or a missing key shows when the graph is
    built. Local models, and the default, wait for the first question: a module-level graph must be
    importable without loading a gigabyte.

    Args:
        settings: The settings of the graph.
        solver: The model that solves: a chat model, a client for one, ``provider:model``,
            ``local:NAME``, or None for the default.
        planner: The model that plans; None for the same as `solver`.
        estimator: The model that estimates; None for the same as `planner`.
        easy: The model that solves what is of a low level; None for the same as `solver`.
        program: The planner's prompts: a `Planner`, a saved program or its path, or None for ours.
        cap_policy: How a cap becomes the models' arguments; None chooses by a model's class.
        budget: The most that a run may spend, or what all runs draw on.

    Raises:
        ModelSetupError: A model cannot be made from what was given.
        PlannerProgramError: The saved planner does not fit.
    """

    def __init__(  # noqa: PLR0913 -- the parts of a graph
        self,
        settings: Settings,
        solver: Model = None,
        *,
        planner: Model = None,
        estimator: Model = None,
        easy: Model = None,
        program: Program | None = None,
        cap_policy: CapPolicy | None = None,
        budget: int | Budget | None = None,
    ) -> None:
        self.settings, self.program, self.budget = settings, program, budget
        self.cap_policy = cap_policy
        self._given = {"solver": solver, "planner": planner, "estimator": estimator, "easy": easy}
        # What was made of what was given, which is kept with it: an `id` is a key only so long.
        self._made: dict[Hashable, tuple[object, Any]] = {}
        self._limits: dict[str, Budget] = {}  # by run
        self._lock = threading.Lock()
        for given in self._given.values():
            if isinstance(given, str) and given.startswith(LOCAL_PREFIX):
                check_local_name(given)
            elif given is not None:
                self.client(given, settings)
        if program is not None:
            self.planner(None)

    def model_for(self, role: Role, context: Context) -> Model:
        """Return the model of a role: the run's own, else the graph's, else the one it stands for.

        A run that names a model of its own has all solving done by it, and likewise all planning.

        Args:
            role: What the model is asked for.
            context: The context of the run.
        """
        if role == "easy" and self._given["easy"] is not None and context.model is None:
            return self._given["easy"]
        solver = context.model or self._given["solver"]
        if role in ("solver", "easy"):
            return solver
        if role == "estimator" and self._given["estimator"] is not None and not context.planner:
            return self._given["estimator"]
        return context.planner or self._given["planner"] or solver

    def open_limit(
        self, run: str, limit: QuestionLimit, prices: Dollars | None, earlier: Spending
    ) -> Budget:
        """Return the account of a run whose settings limit its cost; all of its nodes share it.

        Args:
            run: The run's identity.
            limit: The most that the run may cost.
            prices: The prices of the graph.
            earlier: What the run has spent, for one that goes on in another process.
        """
        with self._lock:
            if run not in self._limits:
                account = Budget(usd=limit.usd, total_tokens=limit.total_tokens)
                if limit.usd is not None and prices:
                    account.rate = prices
                account.charge(earlier)
                self._limits[run] = account
                if len(self._limits) > _MOST_RUNS:  # those that never ended, too
                    del self._limits[next(iter(self._limits))]
            return self._limits[run]

    def client(self, model: Model, settings: Settings) -> ModelClient:
        """Return the client for a model, with the time-out and the retries of these settings.

        Args:
            model: A model by name or by object.
            settings: The settings of the run. A model object keeps its own time limit.

        Raises:
            ModelSetupError: It is no chat model, or cannot be made from its name.
        """
        if isinstance(model, ModelClient):
            return model

        def make() -> ModelClient:
            if not isinstance(model, str | None):
                return client_of(model, self.cap_policy, RetryPolicy(settings.max_retries))
            made = resolve(model_name(model), settings)
            return ChatClient(made, self.cap_policy, retry_policy_for(model, settings))

        return cast("ModelClient", self._get(_key(model, settings), make, model))

    def is_ready(self, model: Model, settings: Settings) -> bool:
        """Return whether `client` returns at once; making a model from its name takes a while.

        Args:
            model: A model by name or by object.
            settings: The settings of the run.
        """
        return not isinstance(model, str | None) or _key(model, settings) in self._made

    def planner(self, program: Program | None) -> Planner:
        """Return the planner of a run's program, or of the graph's.

        Args:
            program: A `Planner`, a saved program or its path; None for that of the graph. A file is
                read again when it has changed.

        Raises:
            PlannerProgramError: The saved planner does not fit, or cannot be read.
        """
        from pb_graph.planner import engine, planner  # noqa: F401, PLC0415 -- DSPy takes a second

        program = self.program if program is None else program
        if isinstance(program, HasPlanner):
            return cast("Planner", program.prompts)  # as they are now
        key = _stamp(program) if isinstance(program, str | Path) else id(program)
        made = self._get(("planner", key), lambda: planner.load_planner(program), program)
        return cast("Planner", made)

    def run_settings(self, context: Context) -> Settings:
        """Return the settings of a run: the graph's or its own program's, and over them its own."""
        program = context.planner_program
        if isinstance(program, str | Path):
            path = program
            program = self._get(_stamp(path), lambda: PlannerProgram.load(path), path)
        own = program.settings if isinstance(program, PlannerProgram | HasPlanner) else None
        return (own or self.settings).merged_with(context.settings)

    def _get(self, key: Hashable, make: Callable[[], object], source: object) -> Any:  # noqa: ANN401
        if key not in self._made:
            with self._lock:
                if key not in self._made:
                    self._made[key] = (source, make())
        return self._made[key][1]


def _key(model: Model, settings: Settings) -> Hashable:
    if isinstance(model, str | None):
        return (model, settings.timeout, settings.max_retries)
    return (id(model), settings.max_retries)


def _stamp(path: str | Path) -> Hashable:
    """Return which file there is, in which state; a missing one is found out when it is read."""
    try:
        status = Path(path).stat()
    except OSError:
        return str(path)
    return (str(path), status.st_mtime_ns, status.st_size)
