"""The parts that the nodes of a graph share: models, planner, options, and the accounts of runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from pb_graph.answers import AnswerType
from pb_graph.budget.account import Budget
from pb_graph.budget.bill import Dollars
from pb_graph.local.weights import LOCAL_PREFIX
from pb_graph.models.caps import CapPolicy
from pb_graph.models.client import ModelClient, RetryPolicy
from pb_graph.models.reply import BLOCKING, IO, run_sync
from pb_graph.models.resolve import client_of, model_name, resolve
from pb_graph.program import PlannerProgram
from pb_graph.run.resume import OnUsedUp
from pb_graph.settings import Settings

if TYPE_CHECKING:
    from pb_graph.planner.planner import Planner

Model = BaseChatModel | Runnable[Any, Any] | ModelClient | str | None
Program = PlannerProgram | str | Path | Any
"""The planner's prompts: a `Planner`, a `PlannerProgram` or its path, or an object with ``prompts``
and ``settings``, such as `optim.tuning.GraphProgram`. `Any`, as importing `Planner` loads DSPy."""
Role = Literal["solver", "easy", "planner", "estimator"]  # what a model is asked to do


def remember(known: dict[Any, Any], key: Hashable, new: Any, most: int = 1000) -> Any:  # noqa: ANN401
    """Return what is known under a key, else what is new; of more than `most`, drop the oldest."""
    value = known.setdefault(key, new)  # in one operation, as nodes run in threads
    for oldest in [*known][:-most]:  # a service may give each run its own model, or abandon runs
        known.pop(oldest, None)
    return value


@dataclass(eq=False)
class GraphParts:
    """The parts of a graph; the fields up to `on_used_up` are arguments of `build_graph`.

    A wrong name or a missing key of a provider's model shows when the graph is built. Local models,
    and the default, wait for the first question: an import must not load a gigabyte.
    """

    settings: Settings
    models: Mapping[Role, Model] = field(default_factory=dict)
    program: Program | None = None
    cap_policy: CapPolicy | None = None
    limit: int | Budget | None = None
    prices: Dollars | None = None
    answer_type: AnswerType | None = None
    tools: tuple[BaseTool, ...] = ()
    on_used_up: OnUsedUp = "answer"
    # Models that will not answer: the HTTP status by run and model.
    refused: dict[tuple[str, str], int | None] = field(default_factory=dict)
    replied: dict[str, bool] = field(default_factory=dict)  # whether a model brought thinking
    # By run and limit: all nodes of a run share them.
    accounts: dict[tuple[str, Any], Budget] = field(default_factory=dict)
    written: tuple[Any, Settings] | None = None  # the last by a node, as JSON and read
    _made: dict[Hashable, tuple[Any, Any]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for model in self.models.values():
            is_local = isinstance(model, str) and model_name(model).startswith(LOCAL_PREFIX)
            if model is not None and not is_local:
                run_sync(self.client(model, self.settings, BLOCKING))
        if self.program is not None:
            run_sync(self.planner(None, BLOCKING))

    async def client(self, model: Model, settings: Settings, io: IO) -> ModelClient:
        """Return the client of a model, with the time-out and the retries of these settings."""
        if isinstance(model, ModelClient):
            return model

        def make() -> ModelClient:
            chat = resolve(model_name(model), settings) if isinstance(model, str | None) else model
            return client_of(chat, self.cap_policy, RetryPolicy(settings.max_retries))

        source = model if isinstance(model, str | None) else id(model)
        key = (source, settings.timeout, settings.max_retries)
        return cast("ModelClient", await self._once(key, make, io, model))

    async def planner(self, program: Program | None, io: IO) -> Planner:
        """Return the planner of a run's program, or of the graph's where that is None."""
        program = await self.program_of(self.program if program is None else program, io)
        if prompts := getattr(program, "prompts", None):
            return cast("Planner", prompts)  # a program that is being tuned changes its prompts

        def make() -> Planner:
            from pb_graph.planner import planner  # noqa: PLC0415 -- loads DSPy

            return planner.load_planner(program)

        return cast("Planner", await self._once(("planner", id(program)), make, io, program))

    async def program_of(self, program: Program | None, io: IO) -> Program | None:
        """Return a program, which may be given as the path of its file."""
        if not isinstance(program, str | Path):
            return program
        key = ("file", str(program))
        return await self._once(key, partial(PlannerProgram.load, program), io, program)

    async def _once(self, key: Hashable, make: Callable[[], Any], io: IO, source: Any) -> Any:  # noqa: ANN401
        """Return what was made for a key; where a loop waits for it, it is made in a thread."""
        # The source is kept as well: its `id` is unique only while it lives.
        made = self._made.get(key) or remember(self._made, key, (await io.load(make), source))
        return made[0]
