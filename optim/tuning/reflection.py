"""The model that writes new instructions, paid for once; how DSPy's optimizers run with it."""

from __future__ import annotations

import io
import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

import dspy
from dspy.utils.exceptions import AdapterParseError
from langchain_core.messages import HumanMessage

from optim.evaluation.cache import CachedClient, Recording, recording
from optim.evaluation.identity import model_identity
from optim.tuning.program import GUARD
from pb_graph.errors import PlanAndBudgetError
from pb_graph.models.client import ChatClient, WrapperClient
from pb_graph.models.io import IO, BlockingIO, run_sync
from pb_graph.models.options import CallOptions
from pb_graph.models.reply import Reply
from pb_graph.models.resolve import model_name, resolve, retry_policy_for
from pb_graph.planner.engine import LangChainEngine, language_model
from pb_graph.settings import Settings
from pb_graph.types import Purpose

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

    from optim.evaluation.cache import ReplyCache
    from optim.tuning.optimizer import Round
    from pb_graph.models.caps import CapPolicy

CAP = 2048  # completion tokens of a reflection
_TEMPERATURE = 1.0  # the same prompt is asked several times over, for different ideas
_PATIENCE = 3  # empty replies in a row
_PURPOSE = Purpose("reflect")
_MARKED = (  # as a fence, and as the old one is marked where a new one is asked for
    re.compile(r"```[\w-]*\n(.*?)```", re.DOTALL),
    re.compile(r"<instruction>(.*?)(?:</instruction>|\Z)", re.DOTALL),
)
_PROPOSED = "proposed_instruction"


class ReflectionError(PlanAndBudgetError):
    """The reflection model says nothing that could be an instruction."""


class Reflector(WrapperClient):
    """Asks the reflection model, and keeps every reply.

    The n-th time that a run asks the same, it gets the n-th reply that was ever given to that, so
    that a run which is started again goes the same way and pays for nothing twice.

    Args:
        model: As for `build_graph`.
        cache: Keeps the replies.
        before: Is called before anything is paid for, such as `Evaluator.check`.
        settings: Time-out and retries.
        cap_policy: As for `build_graph`.

    Attributes:
        identity: For the fingerprint of a run.
        failure: What ended the last call that failed.
    """

    def __init__(
        self,
        model: BaseChatModel | str,
        cache: ReplyCache,
        before: Callable[[], None],
        settings: Settings | None = None,
        cap_policy: CapPolicy | None = None,
    ) -> None:
        settings = settings or Settings()
        chat = _made(model, settings) if isinstance(model, str) else model
        self.identity = model_identity(chat, model if isinstance(model, str) else None)
        client = ChatClient(chat, cap_policy, retry_policy_for(model, settings))
        name = model if isinstance(model, str) else type(chat).__name__
        super().__init__(CachedClient(client, name, self.identity, cache, before=before))
        self._name = name
        self._options = CallOptions(CAP, settings.call_timeout, purpose=_PURPOSE)
        self.failure: PlanAndBudgetError | None = None
        self._asked = Recording()
        self._empty = 0
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Return the model's name for the artefact."""
        return self._name

    def ask(self, prompt: str) -> str:
        """Ask in plain words. Raises as `call`."""
        return run_sync(self.call([HumanMessage(prompt)], self._options, BlockingIO())).text

    def language_model(self) -> dspy.LM:
        """The same model as DSPy's optimizers want it."""
        return language_model(LangChainEngine(self, self._options))

    async def call(self, messages: Sequence[BaseMessage], options: CallOptions, io: IO) -> Reply:
        """Make one call, or give the reply that an earlier start paid for.

        Raises:
            BudgetSpentError: A limit is reached.
            ReflectionError: Several replies in a row were empty.
            ModelCallError: The model could not be called.
            StorageError: Its reply cannot be kept.
        """
        with self._lock:
            try:
                with recording(self._asked):
                    reply = await self.wrapped.call(messages, options, io)
                self._check(reply)
            except PlanAndBudgetError as error:
                self.failure = error
                raise
            return reply

    def _check(self, reply: Reply) -> None:
        self._empty = 0 if reply.text.strip() else self._empty + 1
        if self._empty >= _PATIENCE:
            what = f"nothing {_PATIENCE} times in a row"
            raise self.silent(what)

    def silent(self, what: str) -> ReflectionError:
        """The error for a model that returned this."""
        return ReflectionError(
            f"the reflection model {self.name} returned {what}. Use another --reflection-model, or "
            "--optimizer candidates, which needs none."
        )


class ReflectionAdapter(dspy.ChatAdapter):  # type: ignore[misc]  # dspy carries no types
    """Reads what a weak model writes: without the asked form, the whole reply is the instruction.

    Args:
        guarded: Put a mark in front of instructions, for an optimizer that cuts their beginning.
    """

    def __init__(self, *, guarded: bool = False) -> None:
        # DSPy's own fallback would ask, and pay, a second time.
        super().__init__(use_json_adapter_fallback=False)
        self._guarded = guarded

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:  # noqa: ANN401 -- untyped
        """Read the fields.

        Raises:
            AdapterParseError: The reply is empty, or lacks fields that have no stand-in.
        """
        try:
            fields: dict[str, Any] = super().parse(signature, completion)
        except AdapterParseError:
            names = list(signature.output_fields)
            meant = _PROPOSED if _PROPOSED in names else names[0]
            if not completion.strip() or (meant != _PROPOSED and len(names) > 1):
                raise
            fields = dict.fromkeys(names, "") | {meant: instruction_in(completion)}
        if self._guarded and _PROPOSED in fields:
            fields[_PROPOSED] = GUARD + fields[_PROPOSED].lstrip(GUARD)
        return fields


def instruction_in(reply: str) -> str:
    """The instruction in a reply: what is marked, if one thing is, else all of it, unquoted."""
    text = reply
    for marked in _MARKED:
        found = marked.findall(text)
        text = found[0] if len(found) == 1 else text
    return text.strip().strip("\"'`").strip()


def _made(name: str, settings: Settings) -> BaseChatModel:
    """Make the model; at temperature 0 it would answer the same each time it is asked again."""
    model = resolve(model_name(name), settings)
    if getattr(model, "temperature", None) == 0.0:
        return model.model_copy(update={"temperature": _TEMPERATURE})
    return model


@contextmanager
def compiling(task: Round, *, guarded: bool = False) -> Iterator[None]:
    """Run an optimizer within.

    A spent budget, an outage or a silent reflection model may throw an optimizer off its course in
    any way: then it is left, and what was measured counts. Anything else is an error.

    Raises:
        ModelCallError: The reflection model could not be called.
    """
    adapter, reflector = ReflectionAdapter(guarded=guarded), task.reflection
    reflector.failure = None
    with quiet(), dspy.context(adapter=adapter, trace=None, disable_history=True):
        try:
            yield
        except Exception as error:
            if isinstance(error, AdapterParseError) and reflector.failure is None:
                reflector.failure = reflector.silent("nothing that could be used")
            if task.refused or isinstance(reflector.failure, ReflectionError):
                return
            if reflector.failure is None:
                raise
            raise reflector.failure from error  # DSPy has wrapped it


_LOUD = ("dspy", "gepa", "optuna")


@contextmanager
def quiet() -> Iterator[None]:
    """Swallow what is printed and logged within; who has something to show keeps its own stream."""
    loggers = [logging.getLogger(name) for name in _LOUD]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
