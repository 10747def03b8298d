"""Define the Inspect task of a data set and a method, for `pb-optim eval` and `inspect eval`.

Inspect computes the metrics over the samples that have a score. Samples that ended in an error have
none; they are counted in the log, and tables show them beside the figures.

With ``inspect eval plan_and_budget/math500`` Inspect's ``--model`` answers: retries, time limits,
cache, connections and log are Inspect's. The cap of a call is its ``max_tokens``; all other options
of Inspect's command line apply. `pb-optim report` reads the log.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import transcript
from inspect_ai.model import ChatMessageAssistant, Model, ModelOutput, get_model
from inspect_ai.scorer import Metric, SampleScore, Score, Value, metric, scorer
from inspect_ai.solver import solver
from inspect_ai.util import EarlyStop

from optim.datasets.dataset import digest
from optim.e3 import interval
from optim.evaluation.experiment import Experiment, Shard
from optim.evaluation.inspect_models import InspectChat, show_call, to_inspect
from optim.evaluation.models import Models
from optim.evaluation.runner import RETRY_SETTINGS, Runner, score_answer
from optim.methods import methods
from optim.records import PLANNING, planning_tokens
from optim.records.conditions import Conditions
from optim.scorers import as_scorer
from pb_graph.errors import InputError, PlanAndBudgetError
from pb_graph.models.caps import generic
from pb_graph.models.client import ChatClient, RetryPolicy

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer as InspectScorer
    from inspect_ai.scorer import Target
    from inspect_ai.solver import Generate, Solver, TaskState
    from pydantic import JsonValue

    from optim.datasets import Question
    from optim.evaluation.runner import Outcome
    from optim.evaluation.store import ReplyCache
    from optim.methods import Method
    from optim.scorers import Scorer
    from pb_graph.types import Report

Share = Callable[["Meter"], Awaitable[int]]
"""Tells the other parts of a part's meter, and returns the tokens of all parts."""

_PLANNER = "planner"  # the role of the model that plans: --model-role planner=openai/gpt-5-nano
_OVERVIEW = ("level", "budget", "limit", "steps", "warnings")


def make_task(  # noqa: PLR0913, PLR0917 -- what a run has
    experiment: Experiment,
    method: Method,
    questions: Sequence[Question],
    models: Models,
    judge: Scorer,
    meter: Meter | None = None,
) -> Task:
    """Make the Inspect task of one method on its part of the questions.

    A failed question becomes an error sample, and the task continues. Its report is in the sample's
    store like that of any other.

    Args:
        experiment: The experiment.
        method: The method.
        questions: The questions that all parts draw together.
        models: The models of the run.
        judge: The scorer.
        meter: Counts the run, and limits it. Without it, Inspect decides which samples start.
    """
    runner = Runner(method, models)
    by_id = {question.id: question for question in experiment.in_part(questions)}
    samples = [  # the rest of a question's metadata may be large, or hold the solution
        Sample(
            id=question.id,
            input=question.question,
            target=list(question.targets),
            metadata={
                "level": question.level,
                "domain": question.domain,
                "identity": question.identity,
            },
        )
        for question in by_id.values()
    ]
    dataset = experiment.label
    metadata = _metadata(experiment, method, questions, models)
    if meter is None:  # these are options of Inspect's own command line
        del metadata["made_by"]["epochs"], metadata["made_by"]["temperature"]
    return Task(
        name=f"{dataset}-{method.name}".replace(":", "-"),
        dataset=MemoryDataset(samples, name=dataset),
        solver=_make_solver(runner, by_id, meter),
        scorer=_make_scorer(judge, by_id, meter, metadata["made_by"]["scorer"]),
        epochs=experiment.epochs,
        fail_on_error=False,
        early_stopping=EarlyStopping(meter, runner, by_id) if meter else None,
        metadata=metadata,
    )


def _metadata(
    experiment: Experiment, method: Method, questions: Sequence[Question], models: Models
) -> dict[str, Any]:
    """Return a log's metadata, for `optim.records`: names, conditions, origin, part."""
    part = Shard.parse(experiment.part) if experiment.part else None
    settings, about = method.settings, experiment.origin()
    conditions = Conditions(
        settings=settings.model_dump(mode="json", exclude=set(RETRY_SETTINGS)),
        solver=models.solver_identity,
        planner=models.planner_identity,
        program=method.program_digest,
        estimate_level=method.estimate_level,
        temperature=models.temperature,
        epochs=experiment.epochs,
        source=[about["data"], about["split"]],
        part=experiment.part,
        parts=part.of if part else None,
        asked=digest([[each.identity, list(each.targets)] for each in questions]),
        **{name: about[name] for name in ("seed", "scorer", "scorer_code")},
    )
    metadata: dict[str, Any] = {
        "dataset": experiment.label,
        "method": method.name,
        "model": models.model,
        "planner": models.planner_model,
        "uses_level": settings.has_plan or settings.needs_level,
        "conditions": asdict(conditions),
        "made_by": about
        | {"settings": settings.model_dump(mode="json"), "program": method.program_digest}
        | {"temperature": models.temperature, "epochs": experiment.epochs},
    }
    if part is not None:
        filled = sorted({part.number_of(question.id) for question in questions})
        metadata["part"] = asdict(part) | {"filled": filled}
    return metadata


def _make_solver(runner: Runner, by_id: Mapping[str, Question], meter: Meter | None) -> Solver:
    @solver(name="plan_and_budget")
    def make() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
            question = by_id[str(state.sample_id)]
            with meter.answering() if meter else nullcontext():
                outcome = await runner.answer(question, state.epoch, on_call=show_call)
            _show_outcome(outcome, state)
            if outcome.error is not None:
                if meter:
                    meter.end(is_scored=False)
                # Inspect records the sample as an error, without a score.
                raise PlanAndBudgetError(outcome.error)
            return state

        return solve

    return make()


def _show_outcome(outcome: Outcome, state: TaskState) -> None:
    """Write an outcome into a sample: the report, plan and budgets, the solver's last messages."""
    report = outcome.report
    state.store.set("report", report)
    state.store.set("error", outcome.error)
    overview: dict[str, Any] = {name: value for name, value in report.items() if name in _OVERVIEW}
    transcript().info(overview, source="plan and budgets")
    solving = [call for call in outcome.calls if call.charge["node"] not in PLANNING]
    if solving:  # none are known where Inspect's own model answers
        state.messages = to_inspect(solving[-1].messages)
    answer = solving[-1].text if solving else report["answer"]
    state.messages.append(ChatMessageAssistant(content=answer))
    state.output = ModelOutput.from_content(state.model.name, report["answer"])


def _make_scorer(
    judge: Scorer, by_id: Mapping[str, Question], meter: Meter | None, name: str
) -> InspectScorer:
    @scorer(name=name, metrics=[figures()])
    def make() -> InspectScorer:
        async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001
            report: Report = state.store.get("report")
            is_scored = False
            try:
                verdict = await score_answer(judge, report, by_id[str(state.sample_id)])
                is_scored = True
            finally:
                if meter:
                    meter.end(is_scored=is_scored)
            value = {
                "score": verdict.value,
                "tokens": report["usage"]["output_tokens"],
                "planning": planning_tokens(report),
                "seconds": report["usage"]["seconds"],
            }
            about = asdict(verdict) | {"metadata": dict(verdict.metadata)}
            return Score(**about | {"value": value})

        return score

    return make()


@metric
def figures() -> Metric:
    """Return A in percent, T with planning, and E³ = A²/T with the ends of its 95 % interval.

    With several epochs Inspect first takes the mean of each question, so a question is one
    cluster, as it should be.
    """

    def compute(scores: list[SampleScore]) -> Value:
        names = ("accuracy", "tokens", "e3", "e3_lower", "e3_upper")
        summary: dict[str, str | int | float | bool | None] = dict.fromkeys(names, math.nan)
        values = [cast("Mapping[str, float]", score.score.value) for score in scores]
        right, spent = ([value[name] for value in values] for name in ("score", "tokens"))
        if values:
            summary |= {"accuracy": 100 * fmean(right), "tokens": fmean(spent)}
        with suppress(InputError):  # nothing scored, or no token spent
            estimate = interval(right, spent)
            ends = {"e3_lower": estimate.lower, "e3_upper": estimate.upper}
            summary |= {"e3": estimate.e3} | {k: v for k, v in ends.items() if v is not None}
        return summary

    return compute


class Meter:
    """Count and limit the answers and tokens of a run.

    Args:
        places: Number of questions that are answered concurrently.
        limit: Completion tokens after which no new answer begins. None for no limit.
        cache: Counts the tokens, those of earlier runs included.
        share: This process's part of the limit, where several processes share it.

    Attributes:
        answers: Number of answers that ended in this run.
        errors: Number of these without a score.
        skipped: Number of answers that were not begun.
        interrupted: Whether an answer was cancelled, which Inspect does not always tell.
        watch: Called when an answer ends.
    """

    def __init__(
        self, places: int, limit: int | None, cache: ReplyCache, share: Share | None = None
    ) -> None:
        self.places, self.limit, self.cache = asyncio.Semaphore(places), limit, cache
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
        if self.limit is None:
            return None
        spent = self.cache.spent if self._share is None else await self._share(self)
        return f"{self.limit} tokens are spent" if spent >= self.limit else None


@dataclass(frozen=True)
class EarlyStopping:
    """Inspect's early-stopping hook of one task, called before each sample starts.

    Samples wait here and not in the solver, because a sample that has started cannot be left out of
    the log. After the limit is reached, only samples that cost nothing start.
    """

    meter: Meter
    runner: Runner
    questions: Mapping[str, Question]

    async def start_task(self, *_: object, **__: object) -> str:
        """Return the name that logs show."""
        return "max-tokens-total"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:  # noqa: A002
        """Start a sample when a place is free, or leave the sample out."""
        await self.meter.places.acquire()
        reason = await self.meter.stop_reason()
        if reason is None or await self.runner.replay(self.questions[str(id)], epoch) is not None:
            return None  # the solver gives the place back
        self.meter.places.release()
        self.meter.skipped += 1
        return EarlyStop(id=id, epoch=epoch, reason=reason)

    async def complete_sample(self, *_: object, **__: object) -> None:
        """Do nothing."""

    async def complete_task(self) -> dict[str, JsonValue]:
        """Return nothing for the log."""
        return {}


def task_for(
    dataset: str,
    *,
    method: str,
    settings: dict[str, Any] | None,
    program: str | None,
    levels: int | Sequence[int] | None,
    **options: Any,  # noqa: ANN401 -- fields of `Experiment`
) -> Task:
    """Make the task of one data set and one method, as `plan_and_budget.tasks` says.

    Args:
        dataset: Name of the data set.
        method: Name of the method.
        settings: Settings of the graph.
        program: File that `pb-optim tune` wrote.
        levels: Levels to keep; None for all.
        options: Other fields of `Experiment`.

    Raises:
        InputError: If the experiment is invalid, or has several methods.
    """
    if len(methods(method)) > 1:
        msg = f"a task takes one method, not {method!r}. Run one task for each method."
        raise InputError(msg)
    experiment = Experiment(
        dataset=dataset,
        methods=method,
        settings=settings or {},
        planner_program=program,
        levels=[levels] if isinstance(levels, int) else levels,
        **options,
    )
    questions = experiment.load()
    solver, planner = get_model(), get_model(role=_PLANNER)
    models = Models(  # the log has all of their calls, so none is cached
        solver=ChatClient(InspectChat(), generic, RetryPolicy(max_retries=0)),
        planner=ChatClient(InspectChat(role=_PLANNER), generic, RetryPolicy(max_retries=0)),
        solver_identity=_identity(solver),
        planner_identity=_identity(planner),
        model=str(solver),
        planner_model=str(planner),
    )
    row, judge = experiment.chosen_methods(questions)[0], as_scorer(experiment.chosen_scorer)
    return make_task(experiment, row, questions, models, judge)


def _identity(model: Model) -> str:
    return f"{model} {digest(model.config.model_dump(exclude_none=True))}"
