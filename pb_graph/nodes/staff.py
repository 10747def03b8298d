"""Who does the work: the chat models and the planner of a graph, made on first use."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel

from pb_graph.errors import ModelSetupError
from pb_graph.models.caps import Limits
from pb_graph.models.client import ChatClient
from pb_graph.models.reply import Reply
from pb_graph.models.resolve import LOCAL_PREFIX, model_name, patience_for, resolve
from pb_graph.nodes.contract import Ask, Run, Say

if TYPE_CHECKING:
    from pb_graph.models.aloud import Hears
    from pb_graph.models.caps import CapPolicy
    from pb_graph.planner.consultation import Opinion
    from pb_graph.planner.planner import Planner, Program
    from pb_graph.settings import Settings

    Model = BaseChatModel | ChatClient | str | None


class Staff:
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

    Raises:
        ModelSetupError: A model cannot be made from what was given.
        PlannerProgramError: The saved planner does not fit.
    """

    def __init__(
        self,
        model: Model,
        planner: Model,
        settings: Settings,
        program: Program | None = None,
        cap_policy: CapPolicy | None = None,
    ) -> None:
        self.settings = settings
        self._model = _checked(model)
        self._planner = _checked(planner)
        self._program: Planner | None = None
        self._cap_policy = cap_policy
        self._made: dict[Any, Any] = {}
        self._lock = threading.Lock()
        for given in (self._model, self._planner):
            waits = given is None or (isinstance(given, str) and given.startswith(LOCAL_PREFIX))
            if not waits:
                self._client(given)
        if program is not None:
            self._program = self._loaded(program)

    def serve(self, wish: Say | Ask, run: Run, hears: Hears | None = None) -> Reply | Opinion:
        """Make the call that a node wishes for; ``hears`` is told the reply while it is written.

        Raises:
            ModelCallError: The call failed for good.
            ModelSetupError: There is no model to call.
            UnreadableReplyError: The planner's reply could not be used.
        """
        client = self._client(self._choice(wish, run))
        if isinstance(wish, Say):
            return client.call(wish.messages, _limits(wish, run), wish.purpose, hears)
        from pb_graph.planner.consultation import consult  # noqa: PLC0415 -- DSPy takes a second

        traced = run.context.planner_program is not None
        return consult(
            self._planner_of(run), client, wish.consultation, run.settings, traced=traced
        )

    async def aserve(
        self, wish: Say | Ask, run: Run, hears: Hears | None = None
    ) -> Reply | Opinion:
        """`serve` for an event loop; what has to be loaded first is loaded in a thread."""
        choice = self._choice(wish, run)
        ready = isinstance(choice, ChatClient) or _key(choice) in self._made
        client = self._client(choice) if ready else await asyncio.to_thread(self._client, choice)
        if isinstance(wish, Say):
            return await client.acall(wish.messages, _limits(wish, run), wish.purpose, hears)
        from pb_graph.planner.consultation import aconsult  # noqa: PLC0415

        planner = self._planner_at_hand(run)
        if planner is None:
            planner = await asyncio.to_thread(self._planner_of, run)
        traced = run.context.planner_program is not None
        return await aconsult(planner, client, wish.consultation, run.settings, traced=traced)

    def _choice(self, wish: Say | Ask, run: Run) -> Model:
        """The run's own model if it names one, else the graph's."""
        solver = run.context.model or self._model
        return solver if isinstance(wish, Say) else (run.context.planner or self._planner or solver)

    def _client(self, given: Model) -> ChatClient:
        if isinstance(given, ChatClient):
            return given
        with self._lock:
            key = _key(given)
            if key not in self._made:
                patience = patience_for(given, self.settings)
                if not isinstance(given, BaseChatModel):
                    given = resolve(model_name(given), self.settings)
                self._made[key] = ChatClient(given, self._cap_policy, patience)
            client: ChatClient = self._made[key]
            return client

    def _planner_at_hand(self, run: Run) -> Planner | None:
        """The planner, if it has been loaded already: a thread only to look it up costs more."""
        program = run.context.planner_program
        if program is None and self._program is not None:
            return self._program
        if not isinstance(program, str | Path | None):
            return None
        loaded: Planner | None = self._made.get(("program", str(program)))
        return loaded

    def _planner_of(self, run: Run) -> Planner:
        return self._loaded(run.context.planner_program or self._program)

    def _loaded(self, program: Program | None) -> Planner:
        from pb_graph.planner.planner import load_planner  # noqa: PLC0415

        if not isinstance(program, str | Path | None):
            return load_planner(program)
        with self._lock:
            key = ("program", str(program))
            if key not in self._made:
                self._made[key] = load_planner(program)
            planner: Planner = self._made[key]
            return planner


def _checked(model: object) -> Model:
    if model is None or isinstance(model, BaseChatModel | ChatClient | str):
        return model
    msg = (
        f"{type(model).__name__} is no chat model. Pass 'provider:model', or a chat model object "
        "itself instead of one wrapped by .bind() or .with_config()."
    )
    raise ModelSetupError(msg)


def _key(model: Model) -> Any:  # noqa: ANN401 -- a dictionary key
    return model if isinstance(model, str | None) else id(model)


def _limits(wish: Say, run: Run) -> Limits:
    cap = min(wish.cap, run.settings.cutoff)
    return Limits(cap, run.settings.timeout, thinking=wish.thinking)
