"""Inspect tasks: one for each data set and method, with its solver and its scorer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, scorer
from inspect_ai.solver import solver

from optim.answering import Answering
from optim.fingerprint import digest
from optim.gate import Gate, Purse, Slots
from optim.metrics import accuracy, e3, tokens
from optim.recorded_model import show
from optim.records import planning_tokens
from pb_graph.errors import PlanAndBudgetError

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer as InspectScorer
    from inspect_ai.scorer import Target
    from inspect_ai.solver import Generate, Solver, TaskState

    from optim.datasets import Question
    from optim.scorers import Score as Verdict
    from optim.scorers import Scorer
    from pb_graph.state import Report

__all__ = ["Audience", "Job", "NoSolutionError", "task_of"]


class NoSolutionError(PlanAndBudgetError):
    """A question has no answer. Makes Inspect record the sample as an error, without a score."""


class Audience(Protocol):
    """Is told how each sample ended."""

    def scored(self, job: Job, score: float, report: Report) -> None:
        """A sample was answered and scored."""

    def failed(self, job: Job, report: Report) -> None:
        """A sample has no score."""


@dataclass(frozen=True)
class Job:
    """One method on the questions of one data set, several times over if so wished.

    Attributes:
        dataset: Name of the data set.
        answering: How its questions are answered.
        questions: Which.
        epochs: How often each.
        scorer_name: Who scores the answers.
        model: Name of the model that solves.
        planner: Name of the model that plans.
        source: Where the questions are from, if not from the usual place.
    """

    dataset: str
    answering: Answering
    questions: Sequence[Question]
    epochs: int
    scorer_name: str
    model: str
    planner: str
    source: str | None = None

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.answering.method.name

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
        """Identify the job: what it asks and scores, down to the last setting."""
        answers = [self.answering.fingerprint(question, 0) for question in self.questions]
        targets = [list(question.targets) for question in self.questions]
        return digest([self.dataset, self.scorer_name, answers, targets, self.epochs])

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
            "conditions": self.answering.conditions | {"source": self.source},
        }


def task_of(job: Job, judge: Scorer, slots: Slots, purse: Purse, audience: Audience) -> Task:
    """Make the Inspect task of a job.

    A failed question becomes an error sample and ends nothing; its report is in the sample's
    store like that of any other.

    Args:
        job: What to do.
        judge: Scores the answers; called in a thread.
        slots: Bound how many questions are answered at once, over all tasks.
        purse: Bounds what may be spent.
        audience: Is told how each sample ended.
    """

    def is_free(question: str, epoch: int) -> bool:
        return job.answering.recall(job.by_id[question], epoch) is not None

    name = f"{job.dataset}-{job.method}"
    gate = Gate(f"{name}-{job.planner}", slots, purse, is_free)
    return Task(
        name=name,
        dataset=MemoryDataset([_sample(question) for question in job.questions], name=job.dataset),
        solver=_solver(job, gate, audience),
        scorer=_scorer(job, judge, audience),
        epochs=job.epochs,
        fail_on_error=False,
        early_stopping=gate,
        metadata=job.metadata,
    )


def _sample(question: Question) -> Sample:
    """A question for Inspect; the rest of its metadata may be large, or hold the solution."""
    about = {"level": question.level, "domain": question.domain}
    return Sample(
        id=question.id, input=question.question, target=list(question.targets), metadata=about
    )


def _solver(job: Job, gate: Gate, audience: Audience) -> Solver:
    @solver(name="plan_and_budget")
    def make() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
            question = job.by_id[str(state.sample_id)]
            with gate.held(question.id, state.epoch):
                outcome = await job.answering.answer(question, state.epoch)
            if outcome.error is not None:
                audience.failed(job, outcome.report)
            await show(outcome, state)
            if outcome.error is not None:
                raise NoSolutionError(outcome.error)
            return state

        return solve

    return make()


def _scorer(job: Job, judge: Scorer, audience: Audience) -> InspectScorer:
    @scorer(name=job.scorer_name, metrics=[accuracy(), tokens(), e3()])
    def make() -> InspectScorer:
        async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001
            report: Report = state.store.get("report")
            question = job.by_id[str(state.sample_id)]
            try:
                verdict = await asyncio.to_thread(judge.score, report["answer"], question)
            except Exception:
                audience.failed(job, report)
                raise
            audience.scored(job, verdict.value, report)
            return _inspect_score(verdict, report)

        return score

    return make()


def _inspect_score(verdict: Verdict, report: Report) -> Score:
    usage = report["usage"]
    return Score(
        value={
            "score": verdict.value,
            "tokens": usage["output_tokens"],
            "planning": planning_tokens(report),
            "seconds": usage["seconds"],
        },
        answer=verdict.answer,
        explanation=verdict.explanation,
        metadata=dict(verdict.metadata),
    )
