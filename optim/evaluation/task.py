"""Inspect tasks: one for each data set and method, with its solver, its scorer and its metrics.

Inspect computes the metrics over the samples that have a score. Samples that ended in an error have
none; they are counted in the log, and `optim.summary` shows them beside the figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Metric, MetricProtocol, SampleScore, Score, Value, metric, scorer
from inspect_ai.solver import solver

from optim.datasets.dataset import digest
from optim.e3 import interval
from optim.evaluation.identity import question_identity, scorer_identity
from optim.evaluation.limits import ConcurrencyLimit, EarlyStopping, TokenLimit
from optim.evaluation.runner import Runner, judged
from optim.evaluation.transcript import show
from optim.records import planning_tokens
from optim.records.parts import Part
from pb_graph.errors import InputError, PlanAndBudgetError

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer as InspectScorer
    from inspect_ai.scorer import Target
    from inspect_ai.solver import Generate, Solver, TaskState

    from optim.datasets import Question
    from optim.evaluation.experiment import Experiment
    from optim.evaluation.models import Models
    from optim.methods import Method
    from optim.scorers import Scorer
    from pb_graph.types import Report


class Callback(Protocol):
    """Is told how each sample ended."""

    def scored(self, job: Job, score: float, report: Report) -> None:
        """A sample was answered and scored."""

    def failed(self, job: Job) -> None:
        """A sample has no score."""


@dataclass(frozen=True)
class Job:
    """One method on the questions of one data set, several times over if so wished.

    ``conditions`` are what else one folder must not mix, ``made_by`` is how the log comes about,
    and ``part`` what it says of its part (`optim.records.parts`), where the questions are cut.
    """

    dataset: str
    runner: Runner
    questions: Sequence[Question]
    epochs: int
    scorer_name: str
    model: str
    planner: str
    conditions: Mapping[str, Any] = field(default_factory=dict)
    made_by: Mapping[str, Any] = field(default_factory=dict)
    part: Mapping[str, Any] | None = None
    scorer_written: Sequence[str] = ()

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.runner.method.name

    @property
    def samples(self) -> int:
        """How many answers there are to give."""
        return len(self.questions) * self.epochs

    @cached_property
    def by_id(self) -> Mapping[str, Question]:
        """The questions by their ids."""
        return {question.id: question for question in self.questions}

    @cached_property
    def fingerprint(self) -> str:
        """Identify what is asked and how it is scored; the conditions say how it is answered."""
        questions = [[question_identity(one), list(one.targets)] for one in self.questions]
        scorer = [self.scorer_name, *self.scorer_written]
        return digest([self.dataset, *scorer, questions, self.epochs])

    @property
    def metadata(self) -> dict[str, Any]:
        """What the log has to say about the job, for those who read it."""
        return {
            "dataset": self.dataset,
            "method": self.method,
            "model": self.model,
            "planner": self.planner,
            "scorer": self.scorer_name,
            "fingerprint": self.fingerprint,
            "conditions": self.runner.conditions | dict(self.conditions),
            "made_by": dict(self.made_by),
        } | ({"part": dict(self.part)} if self.part else {})


def job_of(
    experiment: Experiment, method: Method, drawn: Sequence[Question], models: Models
) -> Job:
    """The job of one method, on the questions of the experiment's part of those that were drawn."""
    part = Part.read(experiment.part) if experiment.part else None
    usual = f"split {experiment.split or 'as usual'}"
    job = Job(
        dataset=experiment.dataset,
        runner=Runner(method, models, seed=experiment.seed),
        questions=drawn,
        epochs=experiment.epochs,
        scorer_name=experiment.scorer_name,
        scorer_written=scorer_identity(experiment.scorer or ""),
        model=models.model,
        planner=models.planner_model,
        conditions={
            "source": Path(experiment.data).name if experiment.data else usual,
            "fresh_plans": experiment.fresh_plans,
            "part": part and str(part),
        },
        made_by=experiment.made_by(method)
        | {
            "epochs": experiment.epochs,
            "temperature": models.temperature,
            "top_p": experiment.top_p,
        },
    )
    if part is None:
        return job
    about = part.metadata([question.id for question in drawn], job.fingerprint)
    return replace(job, questions=[one for one in drawn if part.has(one.id)], part=about)


def task_of(
    job: Job,
    judge: Scorer,
    stopping: EarlyStopping | None = None,
    progress: Callback | None = None,
) -> Task:
    """Make the Inspect task of a job.

    A failed question becomes an error sample and ends nothing; its report is in the sample's
    store like that of any other.
    """
    samples = [  # the rest of a question's metadata may be large, or hold the solution
        Sample(
            id=question.id,
            input=question.question,
            target=list(question.targets),
            metadata={"level": question.level, "domain": question.domain},
        )
        for question in job.questions
    ]
    return Task(
        name=f"{job.dataset}-{job.method}",
        dataset=MemoryDataset(samples, name=job.dataset),
        solver=_solver(job, stopping, progress),
        scorer=_scorer(job, judge, progress),
        epochs=job.epochs,
        fail_on_error=False,
        early_stopping=stopping,
        metadata=job.metadata,
    )


def stopping_of(job: Job, places: ConcurrencyLimit, tokens: TokenLimit) -> EarlyStopping:
    """What holds a job's samples back."""

    async def is_free(question: str, epoch: int) -> bool:
        outcome = await job.runner.recall(job.by_id[question], epoch)
        return outcome is not None

    return EarlyStopping(f"{job.dataset}-{job.method}-{job.planner}", places, tokens, is_free)


def _solver(job: Job, stopping: EarlyStopping | None, progress: Callback | None) -> Solver:
    @solver(name="plan_and_budget")
    def make() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
            question = job.by_id[str(state.sample_id)]
            with stopping.held(question.id, state.epoch) if stopping else nullcontext():
                outcome = await job.runner.answer(question, state.epoch)
            if outcome.error is not None and progress:
                progress.failed(job)
            await show(outcome, state)
            if outcome.error is not None:
                # Inspect records the sample as an error, without a score.
                raise PlanAndBudgetError(outcome.error)
            return state

        return solve

    return make()


def _scorer(job: Job, judge: Scorer, progress: Callback | None) -> InspectScorer:
    @scorer(name=job.scorer_name, metrics=[accuracy(), tokens(), e3()])
    def make() -> InspectScorer:
        async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001
            report: Report = state.store.get("report")
            question = job.by_id[str(state.sample_id)]
            try:
                verdict = await judged(judge, report, question)
            except Exception:
                if progress:
                    progress.failed(job)
                raise
            if progress:
                progress.scored(job, verdict.value, report)
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
    """Mean score in percent."""
    return _mean_of("score", scale=100.0)


@metric
def tokens() -> Metric:
    """T: mean completion tokens per query, planning included."""
    return _mean_of("tokens")


@metric
def e3() -> Metric:
    """E³ = A²/T and the ends of its 95 % interval.

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
