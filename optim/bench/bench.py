"""Answer questions with methods: set up the models, run the graph, and count the run.

The digests that identify models are the same on every machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from langchain_core.language_models import BaseChatModel

from optim.bench.store import (
    CachedClient,
    CacheMissError,
    Call,
    Recording,
    ReplyCache,
    RunStoppedError,
    recording,
)
from optim.datasets import Question
from optim.datasets.dataset import digest
from optim.methods import RETRY_SETTINGS, Method
from optim.records import Record, level_source
from optim.scorers import Score, Scorer
from pb_graph.budget.bill import most_billed, usage_of
from pb_graph.errors import InputError, NoAnswerError
from pb_graph.graph import build_graph
from pb_graph.local.weights import LOCAL_PREFIX
from pb_graph.models.caps import CapPolicy, known_policy
from pb_graph.models.client import ChatClient, ModelClient, RetryPolicy
from pb_graph.models.resolve import model_name, resolve
from pb_graph.settings import Settings
from pb_graph.state import Input
from pb_graph.types import Report

ModelSpec = BaseChatModel | str | None
"""A model as `build_graph` takes it."""

Share = Callable[["Meter"], Awaitable[float]]
"""Tells the other parts of a part's meter, and returns what all parts have spent of the limit."""

# May differ between the machines of one evaluation, and after a restart.
_ENDPOINTS = ("openai_api_base", "base_url", "azure_endpoint", "endpoint")


class NamedClient(NamedTuple):
    """A client of a model, with the model's name in logs and its identity."""

    client: ModelClient
    name: str
    identity: str


class Models(NamedTuple):
    """The models of a run."""

    solver: NamedClient
    planner: NamedClient
    temperature: float | None = None


def build_models(  # noqa: PLR0913 -- all but two by name
    model: ModelSpec,
    planner: ModelSpec,
    *,
    settings: Settings,
    cache: ReplyCache,
    cap_policy: CapPolicy | str | None = None,
    temperature: float | None = None,
) -> Models:
    """Set up solver and planner. A local model is fetched and started here."""
    cap_policy = known_policy(cap_policy)
    solves = _client(model, settings, cap_policy, temperature)
    plans = solves if planner is None else _client(planner, settings, cap_policy, temperature)
    return Models(
        solves._replace(client=CachedClient(*solves, cache)),
        plans._replace(client=CachedClient(*plans, cache, one_sample=True)),
        getattr(solves.client.model, "temperature", None),
    )


def model_identity(model: BaseChatModel, name: str | None) -> str:
    """Identify a chat model by its name, class and parameters, but not by its server's address."""
    if name is not None and name.startswith(LOCAL_PREFIX):
        return LOCAL_PREFIX + Path(name.removeprefix(LOCAL_PREFIX)).name
    fields = dict(model._identifying_params)  # noqa: SLF001 -- LangChain's word for it
    if not fields:  # as of ChatOllama: what its package declares, as a user's class may count calls
        bases: Any = type(model).__mro__
        known = next(base for base in bases if base.__module__.startswith("langchain_"))
        own = known.model_fields.keys() - BaseChatModel.model_fields.keys()
        fields = {name: getattr(model, name) for name in sorted(own)}
    parameters = {name: fields[name] for name in fields if name not in _ENDPOINTS}
    # The text of an object may hold an address in memory; its type does not.
    plain = json.loads(json.dumps(parameters, default=lambda value: type(value).__qualname__))
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    return digest([kind, name, plain])


def _client(
    spec: ModelSpec, settings: Settings, cap_policy: CapPolicy | None, temperature: float | None
) -> NamedClient:
    """Return the client of a model."""
    sampling = {} if temperature is None else {"temperature": temperature}
    name = label = None
    if isinstance(spec, BaseChatModel):
        if not sampling.keys() <= type(spec).model_fields.keys():
            msg = f"{type(spec).__name__} has no temperature. Configure the model object instead."
            raise InputError(msg)
        model = spec.model_copy(update=sampling)
    else:
        name = label = model_name(spec)
        model = resolve(name, settings, **sampling)
        if name.startswith(LOCAL_PREFIX):
            label = model_identity(model, name).removesuffix(".gguf")
    client = ChatClient(model, cap_policy, RetryPolicy(settings.max_retries))
    suffix = "" if temperature is None else f" temperature={temperature}"
    return NamedClient(client, label or client.name, model_identity(model, name) + suffix)


def conditions(
    method: Method,
    models: Models,
    **about: Any,  # noqa: ANN401 -- plain JSON
) -> dict[str, Any]:
    """Return everything that bears on the answers of a method and on their scores, as plain JSON.

    Models, program, scorer and questions are digests. No address of a server is in them.

    Args:
        method: The method.
        models: Its models.
        about: ``epochs``, ``seed``, ``source``, ``scorer`` and ``scorer_code``; ``part``, ``parts``
            and ``asked`` where there are any.
    """
    return {
        "settings": method.settings.model_dump(mode="json", exclude=RETRY_SETTINGS),
        "solver": models.solver.identity,
        "planner": models.planner.identity,
        "program": method.program_digest,
        "estimate_level": method.estimate_level,
        "temperature": models.temperature,
        "part": None,
        "parts": None,
        "asked": "",
    } | about


class Runner:
    """Answers questions with one method."""

    def __init__(self, method: Method, models: Models) -> None:
        self.method, self.models = method, models
        self._graph = build_graph(
            models.solver.client,
            planner=models.planner.client,
            settings=method.settings,
            planner_program=method.program,
        )

    async def answer(self, question: Question, recorded: Recording | None = None) -> Record:
        """Answer a question. The record has no score and data set yet; a failure is its error.

        Args:
            question: The question.
            recorded: Tells the number of the sample, and keeps the calls.

        Raises:
            RunStoppedError: If no model can be asked any more.
            CacheMissError: If the recording forbids calls, and a reply is not stored.
        """
        error: str | None = None
        with recording(recorded or Recording()) as record:
            try:
                inputs = question.inputs()
                if self.method.estimate_level:
                    inputs.pop("level", None)
                report = (await self._graph.ainvoke(cast("Input", inputs)))["report"]
            except NoAnswerError as failure:  # an empty answer that was paid for is wrong, no error
                report = failure.report
                error = None if report["usage"]["output_tokens"] else str(failure)
            except (RunStoppedError, CacheMissError):
                raise
            except Exception as failure:  # noqa: BLE001 -- one question must not end the others
                report = _failed_report(self.method.settings, question.level, record.calls)
                error = f"{type(failure).__name__}: {failure}"
        notes = (note["message"] for note in report["warnings"] if note["code"] == "call_failed")
        error = error or next(notes, None)
        settings, estimates = self.method.settings, self.method.estimate_level
        uses_level = settings.has_plan or settings.needs_level
        source = level_source(report, question.level, estimates=estimates) if uses_level else None
        return Record(
            method=self.method.name,
            model=self.models.solver.name,
            planner=self.models.planner.name,
            question=question.id,
            epoch=record.sample,
            level=question.level,
            error=error,
            output=report["answer"],
            target="\n".join(question.targets),
            report=report,
            question_text=question.question,
            level_source=source,
            identity=question.identity,
        )


async def score_answer(scorer: Scorer, report: Report, question: Question) -> Score:
    """Score the answer of a report."""
    if not report["answer"]:
        spent = report["usage"]["output_tokens"]
        metadata = scorer.unanswered(question) if hasattr(scorer, "unanswered") else {}
        reason = f"{spent} completion tokens were paid without an answer"
        return Score(0.0, None, reason, metadata)
    if later := getattr(scorer, "score_async", None):
        score: Score = await later(report["answer"], question)
        return score
    return await asyncio.to_thread(scorer.score, report["answer"], question)


def _failed_report(settings: Settings, level: int | None, calls: Sequence[Call]) -> Report:
    """Return the report of a question that ended with an error: the cost of its calls."""
    charges = [call.charge for call in calls]
    fields: Any = {
        "method": settings.method,
        "level": level,
        "answer": "",
        "cut_off": False,
        "steps": [],
        "usage": usage_of(charges),
        "most_billed": most_billed(charges),
        "warnings": [],
    }
    return cast("Report", dict.fromkeys(Report.__annotations__) | fields)


class Meter:
    """Count and limit the answers and tokens of a run."""

    def __init__(self, places: int, cache: ReplyCache, share: Share | None = None) -> None:
        self.places, self.cache = asyncio.Semaphore(places), cache
        self.answers = self.errors = self.skipped = 0
        self.interrupted = False
        self.watch: Callable[[], None] = lambda: None
        self._share = share

    def end(self, *, is_scored: bool) -> None:
        """Count an answer."""
        self.answers += 1
        self.errors += not is_scored
        self.watch()
        if self._share is not None:
            self._share(self)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Release the place of an answer when the answer ends."""
        try:
            yield
        except asyncio.CancelledError:
            self.interrupted = True
            raise
        finally:
            self.places.release()

    async def stop_reason(self) -> str | None:
        """Return the reason why no new answer may start, or None."""
        if self.cache.failure is not None:
            return str(self.cache.failure)
        limit = self.cache.limit
        if limit is None:
            return None
        spent = limit.spent if self._share is None else await self._share(self)
        return f"{limit.total:g} {limit.unit} are spent" if spent >= limit.total else None
