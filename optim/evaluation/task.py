"""The Inspect task of one data set and method: `pb-optim eval` and `inspect eval` run the same one.

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
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import transcript
from inspect_ai.model import ChatMessageAssistant, Model, ModelOutput, get_model
from inspect_ai.scorer import Metric, MetricProtocol, SampleScore, Score, Value, metric, scorer
from inspect_ai.solver import solver
from inspect_ai.util import EarlyStop

from optim.datasets.dataset import digest
from optim.e3 import interval
from optim.evaluation.experiment import Experiment, scorer_code
from optim.evaluation.inspect_models import InspectChat, show_call, to_inspect
from optim.evaluation.models import Models, load_program
from optim.evaluation.runner import RETRY_SETTINGS, Runner, score_answer
from optim.records import PLANNING, planning_tokens
from optim.records.shards import Shard
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

OnEnd = Callable[[bool], None]
"""Called when a sample ends, with whether it has a score."""

TotalSpent = Callable[[int], Awaitable[int]]
"""Takes the tokens of a part and returns those of all parts."""

_PLANNER = "planner"  # the role of the model that plans: --model-role planner=openai/gpt-5-nano
_OVERVIEW = ("level", "budget", "ceiling", "steps", "warnings")


@dataclass(frozen=True)
class MethodTask:
    """One method on the questions of one data set.

    Attributes:
        runner: Answers.
        questions: By id; those of the experiment's part.
        epochs: Repetitions of each question.
        metadata: The log's metadata, for `optim.records`: names, conditions, origin, part.
    """

    runner: Runner
    questions: Mapping[str, Question]
    epochs: int
    metadata: dict[str, Any] = field(hash=False)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Data set, method, model and planner, as `LogHeader.task`."""
        about = self.metadata
        return about["dataset"], about["method"], about["model"], about["planner"]

    @property
    def samples(self) -> int:
        """Number of answers."""
        return len(self.questions) * self.epochs


def make_method_task(
    experiment: Experiment,
    method: Method,
    drawn: Sequence[Question],
    models: Models,
) -> MethodTask:
    """Make the task of one method on its part of the questions that all parts draw together.

    Raises:
        InputError: Several epochs at temperature 0.
    """
    if experiment.epochs > 1 and models.temperature == 0:
        msg = (
            f"{experiment.epochs} epochs at temperature 0 give the same answer each time. Set a "
            "temperature (such as --temperature 0.7), or one epoch."
        )
        raise InputError(msg)
    part = Shard.parse(experiment.part) if experiment.part else None
    code = scorer_code(experiment.scorer)

    def asked(questions: Sequence[Question]) -> str:
        texts = [[one.identity, list(one.targets)] for one in questions]
        return digest([experiment.dataset, texts])

    questions = [one for one in drawn if part is None or part.has(one.id)]
    settings = method.settings
    sampling = {"temperature": models.temperature, "top_p": experiment.top_p}
    metadata: dict[str, Any] = {
        "dataset": experiment.dataset,
        "method": method.name,
        "model": models.model,
        "planner": models.planner_model,
        "uses_level": settings.has_plan or settings.needs_level,
        # Everything that bears on the answers and their scores (`optim.records.differences`).
        "conditions": sampling
        | {
            "settings": settings.model_dump(mode="json", exclude=set(RETRY_SETTINGS)),
            "solver": models.solver_identity,
            "planner": models.planner_identity,
            "endpoints": list(models.endpoints),
            "seed": experiment.seed,
            "estimate_level": method.estimate_level,
            "fresh_plans": experiment.fresh_plans,
            "source": Path(experiment.data).name
            if experiment.data
            else f"split {experiment.split or 'by default'}",
            "part": experiment.part,
            "epochs": experiment.epochs,
            "scorer": experiment.scorer_name,
            "scorer_code": code,
            "asked": asked(questions),
        },
        "made_by": experiment.provenance(method) | sampling | {"epochs": experiment.epochs},
    }
    if part is not None:
        by_all = digest([asked(drawn), experiment.epochs, experiment.scorer_name, code])
        metadata["part"] = part.metadata([question.id for question in drawn], by_all)
    by_id = {question.id: question for question in questions}
    return MethodTask(Runner(method, models), by_id, experiment.epochs, metadata)


def make_task(
    task: MethodTask,
    judge: Scorer,
    limits: Limits | None = None,
    on_end: OnEnd = lambda _: None,
) -> Task:
    """Make the Inspect task of a method. Without limits, Inspect decides which samples start.

    A failed question becomes an error sample and ends nothing. Its report is in the sample's store
    like that of any other.
    """

    async def is_free(question: str, epoch: int) -> bool:
        return await task.runner.replay(task.questions[question], epoch) is not None

    samples = [  # the rest of a question's metadata may be large, or hold the solution
        Sample(
            id=question.id,
            input=question.question,
            target=list(question.targets),
            metadata={"level": question.level, "domain": question.domain},
        )
        for question in task.questions.values()
    ]
    dataset, method, *_ = task.key
    stopping = EarlyStopping(limits, is_free) if limits else None
    return Task(
        name=f"{dataset}-{method}".replace(":", "-"),
        dataset=MemoryDataset(samples, name=dataset),
        solver=_make_solver(task, stopping, on_end),
        scorer=_make_scorer(task, judge, on_end),
        epochs=task.epochs,
        fail_on_error=False,
        early_stopping=stopping,
        metadata=task.metadata,
    )


def _make_solver(task: MethodTask, stopping: EarlyStopping | None, on_end: OnEnd) -> Solver:
    @solver(name="plan_and_budget")
    def make() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
            question = task.questions[str(state.sample_id)]
            with stopping.place(question.id, state.epoch) if stopping else nullcontext():
                outcome = await task.runner.answer(question, state.epoch, on_call=show_call)
            _show_outcome(outcome, state)
            if outcome.error is not None:
                on_end(False)
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
    solving = [call for call in outcome.calls if call["charge"]["node"] not in PLANNING]
    if solving:  # none are known where Inspect's own model answers
        state.messages = to_inspect(solving[-1]["messages"])
    answer = solving[-1]["text"] if solving else report["answer"]
    state.messages.append(ChatMessageAssistant(content=answer))
    state.output = ModelOutput.from_content(state.model.name, report["answer"])


def _make_scorer(task: MethodTask, judge: Scorer, on_end: OnEnd) -> InspectScorer:
    @scorer(name=task.metadata["conditions"]["scorer"], metrics=[accuracy(), tokens(), e3()])
    def make() -> InspectScorer:
        async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001
            report: Report = state.store.get("report")
            is_scored = False
            try:
                verdict = await score_answer(judge, report, task.questions[str(state.sample_id)])
                is_scored = True
            finally:
                on_end(is_scored)
            usage = report["usage"]
            value = {
                "score": verdict.value,
                "tokens": usage["output_tokens"],
                "planning": planning_tokens(report),
                "seconds": usage["seconds"],
            }
            about = asdict(verdict) | {"metadata": dict(verdict.metadata)}
            return Score(**about | {"value": value})

        return score

    return make()


@metric
def accuracy() -> Metric:
    """Return the mean score in percent."""
    return _mean_of("score", scale=100.0)


@metric
def tokens() -> Metric:
    """Return T: mean completion tokens per question, planning included."""
    return _mean_of("tokens")


@metric
def e3() -> Metric:
    """Return E³ = A²/T and the ends of its 95 % interval.

    With several epochs Inspect first takes the mean of each question, so a question is one
    cluster, as it should be.
    """

    def compute(scores: list[SampleScore]) -> Value:
        values = [_values(score) for score in scores]
        try:
            found = interval([v["score"] for v in values], [v["tokens"] for v in values])
        except InputError:  # nothing scored, or no token spent
            return {"e3": math.nan, "e3_lower": math.nan, "e3_upper": math.nan}
        ends = {"e3_lower": found.lower, "e3_upper": found.upper}
        return {"e3": found.e3} | {k: math.nan if v is None else v for k, v in ends.items()}

    return compute


def _mean_of(name: str, scale: float = 1.0) -> MetricProtocol:
    def compute(scores: list[SampleScore]) -> Value:
        if not scores:
            return math.nan
        return scale * sum(_values(score)[name] for score in scores) / len(scores)

    return compute


def _values(score: SampleScore) -> Mapping[str, float]:
    return cast("Mapping[str, float]", score.score.value)


class Limits:
    """The places for answers at once, first come, first served, and the tokens of a run.

    Args:
        places: Number of questions that are answered at once.
        tokens: Completion tokens after which no new answer begins. None for no limit.
        cache: Counts the tokens, those of earlier runs included.
        total_spent: Takes the tokens of this part and returns those of all parts.

    Attributes:
        skipped: Number of answers that were not begun.
        interrupted: Whether an answer was cancelled, which Inspect does not always tell.
    """

    def __init__(
        self,
        places: int,
        tokens: int | None,
        cache: ReplyCache,
        total_spent: TotalSpent | None = None,
    ) -> None:
        self.places, self.tokens = asyncio.Semaphore(places), tokens
        self.skipped, self.interrupted = 0, False
        self._cache, self._total_spent = cache, total_spent

    @property
    def spent(self) -> int:
        """Completion tokens so far."""
        return self._cache.spent

    async def stop_reason(self) -> str | None:
        """Return the reason why no new answer may begin, or None."""
        if self._cache.failure is not None:
            return str(self._cache.failure)
        if self.tokens is None:
            return None
        spent = self.spent if self._total_spent is None else await self._total_spent(self.spent)
        return f"{self.tokens} tokens are spent" if spent >= self.tokens else None


class EarlyStopping:
    """Inspect's early-stopping hook of one task, called before each sample starts.

    Samples wait for their place here and not in the solver, because a sample that has started can
    no longer be left out of the log. Once the limit is reached, only samples that cost nothing
    start.

    Args:
        limits: Those of the run.
        is_free: Returns whether the sample of a question and epoch would cost nothing.
    """

    def __init__(self, limits: Limits, is_free: Callable[[str, int], Awaitable[bool]]) -> None:
        self._limits, self._is_free = limits, is_free
        self._placed: set[tuple[str, int]] = set()

    async def start_task(self, *_: object, **__: object) -> str:
        """Return the name that logs show."""
        return "max-tokens-total"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:  # noqa: A002
        """Let a sample start once it has a place, or leave it out."""
        await self._limits.places.acquire()
        self._placed.add((str(id), epoch))
        reason = await self._limits.stop_reason()
        if reason is None or await self._is_free(str(id), epoch):
            return None
        self._release(str(id), epoch)
        self._limits.skipped += 1
        return EarlyStop(id=id, epoch=epoch, reason=reason)

    @contextmanager
    def place(self, question: str, epoch: int) -> Iterator[None]:
        """Keep the place of a sample until it is answered."""
        try:
            yield
        except asyncio.CancelledError:
            self._limits.interrupted = True
            raise
        finally:
            self._release(question, epoch)

    async def complete_sample(self, id: str | int, epoch: int, scores: object) -> None:  # noqa: A002, ARG002
        """Give back the place of a sample that never came to its solver."""
        self._release(str(id), epoch)

    async def complete_task(self) -> dict[str, JsonValue]:
        """Return the tokens that had been spent when the task ended."""
        return {"completion_tokens_spent": self._limits.spent, "limit": self._limits.tokens}

    def _release(self, question: str, epoch: int) -> None:
        if (question, epoch) in self._placed:
            self._placed.remove((question, epoch))
            self._limits.places.release()


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

    Raises:
        InputError: As `Experiment`; or several methods, of which each is a task of its own.
    """
    one_level = [levels] if isinstance(levels, int) else levels
    experiment = Experiment(
        dataset=dataset,
        methods=method,
        settings=settings or {},
        planner_program=program,
        levels=one_level and [int(level) for level in one_level],
        fresh_plans=True,  # there is no cache to take them from
        **options,
    )
    questions = experiment.source.read()
    chosen = next(iter(experiment.chosen_methods(questions)))
    if chosen.name != method:
        msg = f"a task has one method, not {method!r}: name one, and run the others as well"
        raise InputError(msg)
    solver, planner = get_model(), get_model(role=_PLANNER)
    models = Models(  # the log has all of their calls, so none is cached
        solver=ChatClient(InspectChat(), generic, RetryPolicy(max_retries=0)),
        planner=ChatClient(InspectChat(role=_PLANNER), generic, RetryPolicy(max_retries=0)),
        program=load_program(program),
        solver_identity=_identity(solver),
        planner_identity=_identity(planner),
        model=str(solver),
        planner_model=str(planner),
    )
    task = make_method_task(experiment, chosen, experiment.draw(questions), models)
    # Epochs and temperature are options of Inspect's command line.
    task.metadata["made_by"] = experiment.provenance(chosen)
    return make_task(task, experiment.build_scorer())


def _identity(model: Model) -> str:
    return f"{model} {digest(model.config.model_dump(exclude_none=True))}"
