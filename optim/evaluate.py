"""Runs an experiment: all methods on the same questions, on Inspect, resumable after any death.

Inspect runs and logs. Beside its logs the folder holds two journals: ``answers.jsonl`` (every
finished answer, under a fingerprint of all that bears on it) and ``plans.jsonl`` (every reply of
the planner). Inspect itself writes samples in batches, and a killed process loses the last one;
the journals lose nothing that was finished. The same command again therefore takes finished
answers from the journal, and pays for the rest only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from inspect_ai import eval as inspect_eval
from inspect_ai.model import get_model
from rich.console import Console

from optim.answering import Answering, paid_for_solving
from optim.clients import hire
from optim.gate import Purse, Slots
from optim.journal import Journal
from optim.lock import held
from optim.past_logs import Past
from optim.progress import Board
from optim.recorded_model import PROVIDER
from optim.scorers import scorer as make_scorer
from optim.summary import rows
from optim.tasks import Job, task_of
from pb_graph.errors import PlanAndBudgetError

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog

    from optim.answering import Staff
    from optim.datasets import Question
    from optim.experiment import Experiment
    from optim.methods import Method
    from optim.records import Record
    from optim.scorers import Scorer
    from optim.summary import Row
    from pb_graph.settings import Settings

__all__ = ["Evaluation", "EvaluationError", "evaluate"]

ANSWERS, PLANS = "answers.jsonl", "plans.jsonl"
_FLUSHES = 50  # times that Inspect writes a log while it grows; each time it writes all of it


class EvaluationError(PlanAndBudgetError):
    """An evaluation broke off as a whole, and not only single answers in it."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of an experiment.

    Attributes:
        records: Every answer of its tasks, those of earlier runs included.
        rows: The table.
        spent: Completion tokens that the folder's answers have really cost, shared plans once.
        not_started: Answers that were not begun because the limit had been reached.
        log_dir: Where the logs are.
    """

    records: list[Record]
    rows: list[Row]
    spent: int
    not_started: int
    log_dir: Path


def evaluate(experiment: Experiment, *, console: Console | None = None) -> Evaluation:
    """Run an experiment, or what is left of it.

    Args:
        experiment: What to run.
        console: Where progress is shown; standard error when not given.

    Returns:
        The records and the table. An error in one answer is in there; it ends nothing.

    Raises:
        InputError: Something about the experiment is wrong, another process is using the folder,
            or the folder holds the same task under other conditions.
        ModelSetupError: A model cannot be set up.
        ScorerError: The scorer cannot be set up.
    """
    methods, questions = experiment.chosen_methods(), experiment.questions()
    judge = make_scorer(experiment.scorer_name)
    folder = Path(experiment.log_dir)
    with held(folder), _closing(judge):
        answers, plans = Journal(folder / ANSWERS), Journal(folder / PLANS)
        purse = Purse(experiment.max_tokens_total, _already_spent(answers, plans))
        staff = _hired(experiment, methods[0].settings, plans, purse)
        jobs = [_job(experiment, method, questions, staff, answers) for method in methods]
        past = Past(folder)
        past.check(jobs)
        left = [job for job in jobs if not past.completed(job, errors=experiment.retry_errors)]
        if left:
            _run(left, judge, purse, experiment, console or Console(stderr=True))
            past.clear_up(left)
        records = Past(folder).records(jobs)
    return Evaluation(records, rows(records), purse.spent, purse.refused, folder)


def _hired(experiment: Experiment, settings: Settings, plans: Journal, purse: Purse) -> Staff:
    return hire(
        experiment.model,
        experiment.planner,
        program=experiment.planner_program,
        settings=settings,
        plans=plans,
        pay=purse.pay,
        cap_policy=experiment.cap_policy,
    )


def _job(
    experiment: Experiment,
    method: Method,
    questions: Sequence[Question],
    staff: Staff,
    answers: Journal,
) -> Job:
    answering = Answering(
        method,
        staff,
        journal=answers,
        seed=experiment.seed,
        estimate_level=experiment.estimate_level or method.estimate_level,
        retry_errors=experiment.retry_errors,
    )
    return Job(
        dataset=experiment.dataset,
        answering=answering,
        questions=questions,
        epochs=experiment.epochs,
        scorer_name=experiment.scorer_name,
        model=staff.model,
        planner=staff.planner_model,
        source=experiment.source,
    )


def _run(
    jobs: Sequence[Job], judge: Scorer, purse: Purse, experiment: Experiment, console: Console
) -> None:
    """Run what is left, all methods side by side: a run cut short has them equally far."""
    slots = Slots(experiment.concurrency)
    with Board(jobs, purse, console) as board:
        logs = inspect_eval(
            [task_of(job, judge, slots, purse, board) for job in jobs],
            model=get_model(f"{PROVIDER}/{jobs[0].model}"),
            log_dir=str(experiment.log_dir),
            log_format="eval",
            log_buffer=max(1, jobs[0].samples // _FLUSHES),
            log_realtime=False,  # a sample's events all come at its end
            log_level="error",  # errors of samples are counted on the board
            max_tasks=len(jobs),
            max_samples=experiment.concurrency,
            display="none",
            score_display=False,
            ctl_server=False,
            log_header_only=True,
        )
    _check(logs, len(jobs))


def _check(logs: Sequence[EvalLog], tasks: int) -> None:
    """Raise what Inspect keeps to itself: Ctrl-C, and a task that broke as a whole."""
    if len(logs) < tasks or any(log.status == "cancelled" for log in logs):
        raise KeyboardInterrupt
    for log in logs:
        if log.status != "success":
            reason = log.error.message if log.error else log.status
            msg = f"the task {log.eval.task} broke off: {reason}. What was finished is kept."
            raise EvaluationError(msg)


def _already_spent(answers: Journal, plans: Journal) -> int:
    planning = sum(int(entry["charge"]["output_tokens"]) for entry in plans.entries())
    return planning + sum(paid_for_solving(entry) for entry in answers.entries())


@contextmanager
def _closing(judge: Scorer) -> Iterator[None]:
    """End what the scorer started, if it can be ended."""
    try:
        yield
    finally:
        close = getattr(judge, "close", None)
        if close is not None:
            close()
