"""The parts that the nodes of a graph share: models, planner, options, and the accounts of runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from typing_extensions import TypeIs

from pb_graph.answers import AnswerType
from pb_graph.budget.account import Budget
from pb_graph.budget.bill import Dollars
from pb_graph.local.weights import LOCAL_PREFIX
from pb_graph.models.caps import CapPolicy
from pb_graph.models.classes import FoundClass, class_of_any, find_class
from pb_graph.models.client import ModelClient, RetryPolicy
from pb_graph.models.options import key_of
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
Role = Literal["solver", "easy", "planner", "estimator"]
"""The task that a model is asked to do."""

_MAX_MADE = 1000  # a service may give each run its own model, and runs may be abandoned


class Made(dict[Hashable, Any]):
    """Objects by key, each of which is made once; the oldest of many are dropped."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Return what was made for a key; make it first where it is missing."""
        with self._lock:
            made = self[key] = self.get(key) or make()
            if len(self) > _MAX_MADE:
                del self[next(iter(self))]
        return made


@dataclass(eq=False)
class GraphParts:
    """The parts of a graph.

    Provider models are made at once, so that a wrong name or a missing key shows when the graph is
    built. Local models, and the default, wait for the first question: a module-level graph must be
    importable without loading a gigabyte.

    The fields up to `on_used_up` are the arguments of `build_graph`.

    Attributes:
        settings: The settings of the graph: those that are given, else those of `program`, else the
            defaults.
        refused: Models that will not answer: the HTTP status by run and model.
        replied: Whether a model, by its key, brought thinking.
        accounts: The accounts of limits, by run and limit: all nodes of a run share them.
        read: The settings that a node read or wrote last, as JSON and as `Settings`.

    Raises:
        InputError: If a setting is wrong, or the saved planner does not fit.
        ModelSetupError: If a model cannot be made.
    """

    given: InitVar[Settings | Mapping[str, Any] | None]
    models: Mapping[Role, Model] = field(default_factory=dict)
    program: Program | None = None
    cap_policy: CapPolicy | None = None
    limit: int | Budget | None = None
    prices: Dollars | None = None
    answer_type: AnswerType | None = None
    tools: tuple[BaseTool, ...] = ()
    on_used_up: OnUsedUp = "answer"
    refused: dict[tuple[str, str], int | None] = field(default_factory=dict)
    replied: dict[str, bool] = field(default_factory=dict)
    read: tuple[object, Settings] | None = None
    settings: Settings = field(init=False)

    def __post_init__(self, given: Settings | Mapping[str, Any] | None) -> None:
        """Read the settings, and make the models."""
        self._made, self.accounts = Made(), Made()
        if given is None:
            program = run_sync(self.program_of(self.program, BLOCKING))
            given = getattr(program, "settings", None)
        self.settings = Settings.read(Settings() if given is None else given)
        for model in self.models.values():
            if isinstance(model, str) and model.startswith(LOCAL_PREFIX):
                model_name(model)  # raises if the model is unknown
            elif model is not None:
                run_sync(self.client(model, self.settings, BLOCKING))
        if self.program is not None:
            run_sync(self.planner(None, BLOCKING))

    async def client(self, model: Model, settings: Settings, io: IO) -> ModelClient:
        """Return the client of a model, with the time-out and the retries of these settings.

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
        return cast("ModelClient", await self.made(key, make, io, model))

    async def class_of(self, model: Model, settings: Settings, io: IO) -> FoundClass:
        """Return the class of a model, or of its fallbacks, and what told it."""
        if is_named(model) and (name := model_name(model)).startswith(LOCAL_PREFIX):
            return find_class(name)  # without loading its weights
        client = await self.client(model, settings, io)

        def find() -> dict[str, FoundClass]:
            return {key_of(each): find_class(each) for each in client.models}

        found: Any = await self.made(("class", id(client)), find, io, client)
        return class_of_any(found, self.replied)

    async def planner(self, program: Program | None, io: IO) -> Planner:
        """Return the planner of a run's program, or of the graph's where that is None.

        Raises:
            InputError: If the saved planner does not fit, or cannot be read.
        """
        program = await self.program_of(self.program if program is None else program, io)
        if prompts := getattr(program, "prompts", None):
            return cast("Planner", prompts)  # a program that is being tuned changes its prompts

        def make() -> Planner:
            from pb_graph.planner import planner  # noqa: PLC0415 -- loads DSPy

            return planner.load_planner(program)

        return cast("Planner", await self.made(("planner", id(program)), make, io, program))

    async def made(self, key: Hashable, make: Callable[[], object], io: IO, source: object) -> Any:  # noqa: ANN401
        """Return what was made for a key, in a thread where a loop waits for it to be made.

        The source of an object is kept as well: its `id` is unique only while it lives.
        """
        entry: Any = self._made.get(key)
        if entry is None:
            entry = await io.load(self._made.once, key, lambda: (make(), source))
        return entry[0]

    async def program_of(self, program: Program | None, io: IO) -> Program | None:
        """Return a program, which may be given as the path of its file."""
        if not isinstance(program, str | Path):
            return program
        key = ("file", str(program))
        return await self.made(key, lambda: PlannerProgram.load(program), io, program)


def is_named(model: object) -> TypeIs[str | None]:
    """Return whether a model is given by its name, or is the default."""
    return model is None or isinstance(model, str)
