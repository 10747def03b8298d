"""The Inspect task of one data set and method: `pb-optim eval` and `inspect eval` run the same one.

Inspect computes the metrics over the samples that have a score. Samples that ended in an error have
none; they are counted in the log, and tables show them beside the figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Metric, MetricProtocol, SampleScore, Score, Value, metric, scorer
from inspect_ai.solver import solver

from optim.datasets.dataset import digest
from optim.e3 import interval
from optim.evaluation.identity import question_identity, scorer_code
from optim.evaluation.limits import EarlyStopping
from optim.evaluation.runner import RETRY_SETTINGS, Runner, score_answer
from optim.evaluation.transcript import show_outcome
from optim.records import planning_tokens
from optim.records.shards import Shard
from pb_graph.errors import InputError, PlanAndBudgetError

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer as InspectScorer
    from inspect_ai.scorer import Target
    from inspect_ai.solver import Generate, Solver, TaskState

    from optim.datasets import Question
    from optim.evaluation.experiment import Experiment
    from optim.evaluation.limits import Limits
    from optim.evaluation.models import Models
    from optim.methods import Method
    from optim.scorers import Scorer
    from pb_graph.types import Report

OnEnd = Callable[[bool], None]
"""Called when a sample ends, with whether it has a score."""


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
        texts = [[question_identity(one), list(one.targets)] for one in questions]
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
    stopping = EarlyStopping(task.key, limits, is_free) if limits else None
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
                outcome = await task.runner.answer(question, state.epoch)
            await show_outcome(outcome, state)
            if outcome.error is not None:
                on_end(False)
                # Inspect records the sample as an error, without a score.
                raise PlanAndBudgetError(outcome.error)
            return state

        return solve

    return make()


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
