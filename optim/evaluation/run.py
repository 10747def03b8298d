"""Runs an experiment: all methods, the same questions, on Inspect, resumable after a kill.

Inspect runs and logs. Beside its logs the folder holds ``replies.jsonl``, every reply that was paid
for under its request (`optim.evaluation.cache`). The same command again makes the same requests, so
it goes on within a question, pays for what is missing only, and `spent` is what the models wrote.
Inspect's own recovery of finished samples would lose the steps of unfinished ones.
"""

from __future__ import annotations

import asyncio
import builtins
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import rich
from inspect_ai import eval as inspect_eval
from inspect_ai.model import get_model
from rich.console import Console

from optim.evaluation.cache import REPLIES, ReplyCache
from optim.evaluation.journal import StorageError, storage_error
from optim.evaluation.limits import ConcurrencyLimit, TokenLimit
from optim.evaluation.models import build_models
from optim.evaluation.progress import EvaluationProgress
from optim.evaluation.resume import LogFolder, held, refuse_former
from optim.evaluation.task import Callback, Job, job_of, stopping_of, task_of
from optim.evaluation.transcript import PROVIDER
from optim.extras import require_modules
from optim.records import location
from optim.records.parts import PARTS, Part
from optim.report.terminal import Figures
from optim.summary import rows
from pb_graph.errors import InputError, PlanAndBudgetError

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog

    from optim.evaluation.experiment import Experiment
    from optim.records import Records
    from optim.scorers import Scorer
    from optim.summary import Row
    from pb_graph.settings import Settings

    Watch = Callable[[Sequence[Job], TokenLimit, Console], AbstractContextManager[Callback]]

_FLUSHES = 50  # times that Inspect writes a log while it grows; each time it writes all of it
_PROBE = 1 << 16  # bytes that a disk with room can take


class EvaluationError(PlanAndBudgetError):
    """An evaluation broke off as a whole, and not only single answers in it."""


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """What came of an experiment; printed, or at the end of a notebook's cell, it is the table.

    Attributes:
        records: Every answer of its tasks, those of earlier runs included.
        rows: The table.
        spent: Completion tokens that the models wrote for this folder, shared plans once.
        not_started: Answers that were not begun because the limit had been reached.
        log_dir: Where the logs are.
    """

    records: Records
    rows: list[Row]
    spent: int
    not_started: int
    log_dir: Path

    def __repr__(self) -> str:
        return str(Figures(self.rows))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return Figures(self.rows)._repr_html_()


def evaluate(
    experiment: Experiment,
    *,
    console: Console | None = None,
    engine: Literal["here", "ray"] = "here",
    parts: int = PARTS,
) -> Evaluation:
    """Run an experiment, or what is left of it.

    Args:
        experiment: What to run.
        console: Where progress is shown; standard error when not given.
        engine: ``here`` runs in this process; ``ray`` runs parts of the questions as Ray tasks, on
            the cluster of ``RAY_ADDRESS`` or the cores of this machine, each with a folder of its
            own in the log folder. The limit of tokens is for all of them together, and
            ``concurrency`` for each.
        parts: How many parts Ray runs.

    Returns:
        The records and the table. An error in one answer is in there; it ends nothing.

    Raises:
        InputError: Something about the experiment is wrong, another process is using the folder,
            or the folder holds the same task under other conditions, or work of an earlier format;
            or this is called in an event loop, outside of a notebook.
        MissingPackageError: Ray is not installed.
        ModelSetupError: A model cannot be set up.
        ScorerError: The scorer cannot be set up.
        StorageError: The disk is full, or the folder cannot be written any more.
        EvaluationError: A task broke off.
    """
    console = console or Console(stderr=True)
    if engine == "here":
        _check_no_event_loop()
        return run_here(experiment, console)
    if engine != "ray" or parts < 1:
        msg = f"the engine is here or ray, and there is at least 1 part, not {engine!r}, {parts}"
        raise InputError(msg)
    require_modules("ray")
    from optim.evaluation.ray_engine import run_parts  # noqa: PLC0415 -- of an extra

    return run_parts(experiment, parts, console)


def _check_no_event_loop() -> None:
    """Refuse to be called where one is running: Inspect runs its own, in notebooks within that."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if not hasattr(builtins, "__IPYTHON__"):
        msg = (
            "an event loop is running here, and an evaluation runs its own: "
            "await asyncio.to_thread(evaluate, experiment)"
        )
        raise InputError(msg)


def run_here(
    experiment: Experiment,
    console: Console,
    *,
    together: Callable[[int], int] | None = None,
    progress: Watch | None = None,
) -> Evaluation:
    """`evaluate` in this process; others may spend of the same limit `together` with it."""
    questions = experiment.drawn()
    methods = experiment.chosen_methods(questions)
    judge, folder = experiment.judge(), Path(experiment.work_dir or experiment.log_dir)
    with held(folder), ExitStack() as ended:
        ended.callback(getattr(judge, "close", lambda: None))  # what the scorer has started
        refuse_former(folder)
        cache = ReplyCache(folder / REPLIES)
        limit = TokenLimit(experiment.max_tokens_total, cache, together)
        models = build_models(
            experiment.model,
            experiment.planner,
            program=experiment.planner_program,
            settings=_patient([method.settings for method in methods]),
            cache=cache,
            cap_policy=experiment.cap_policy,
            sampling=experiment.sampling,
            fresh_plans=experiment.fresh_plans,
        )
        jobs = [job_of(experiment, method, questions, models) for method in methods]
        log_dir = location(experiment.log_dir)
        logs = LogFolder(log_dir)
        logs.check(jobs)
        left = [
            job
            for job in jobs
            if job.questions and not logs.completed(job, errors=experiment.retry_errors)
        ]
        if left:
            if experiment.part and limit.most is not None and together is None:
                of = Part.read(experiment.part).of
                console.print(
                    f"The limit of {limit.most} tokens is this part's own: {of} parts may spend "
                    f"{of * limit.most}."
                )
            with _storage_seen_to(folder, cache):
                watch = (progress or EvaluationProgress)(left, limit, console)
                _run(left, judge, limit, experiment, watch)
            logs.clear_up(left)
        records = LogFolder(log_dir).records(jobs)
    return Evaluation(records, rows(records), cache.spent, limit.refused, log_dir)


def _patient(each: Sequence[Settings]) -> Settings:
    """Settings for the models, which all rows share: no row gets less patience than it wants."""
    most: dict[str, float | None] = {"max_retries": max(one.max_retries for one in each)}
    if any(one.timeout is not None for one in each):
        most["timeout"] = max(one.call_timeout for one in each)
    return each[0].model_copy(update=most)


def _run(
    jobs: Sequence[Job],
    judge: Scorer,
    limit: TokenLimit,
    experiment: Experiment,
    watch: AbstractContextManager[Callback],
) -> None:
    """Run what is left, all methods side by side: a run cut short has them equally far."""
    places = ConcurrencyLimit(experiment.concurrency)
    with watch as progress, _host_as_it_was():
        logs = inspect_eval(
            [task_of(job, judge, stopping_of(job, places, limit), progress) for job in jobs],
            model=get_model(f"{PROVIDER}/{jobs[0].model}"),
            log_dir=str(experiment.log_dir),
            log_format="eval",
            log_buffer=max(1, jobs[0].samples // _FLUSHES),
            log_realtime=False,  # a sample's events all come at its end
            log_level="error",  # errors of samples are counted by the progress
            max_tasks=len(jobs),
            max_samples=experiment.concurrency,
            display="none",
            score_display=False,
            ctl_server=False,
            log_header_only=True,
        )
    _check(logs, len(jobs))


@contextmanager
def _host_as_it_was() -> Iterator[None]:
    """Inspect sets the level of all logging, and silences rich, for good: both are the host's."""
    root, console = logging.getLogger(), rich.get_console()
    level, printing = root.level, console.__dict__
    rich.reconfigure(quiet=True)  # which Inspect does the first time only
    try:
        yield
    finally:
        root.setLevel(level)
        console.__dict__ = printing


def _check(logs: Sequence[EvalLog], tasks: int) -> None:
    """Raise what Inspect keeps to itself: Ctrl-C, and a task that broke as a whole."""
    if len(logs) < tasks or any(log.status == "cancelled" for log in logs):
        raise KeyboardInterrupt
    for log in logs:
        if log.status != "success":
            reason = log.error.message if log.error else log.status
            msg = f"the task {log.eval.task} broke off: {reason}. What was finished is kept."
            raise EvaluationError(msg)


@contextmanager
def _storage_seen_to(folder: Path, cache: ReplyCache) -> Iterator[None]:
    """Say it plainly where a run broke off because its folder cannot be written."""
    try:
        yield
    except Exception as error:
        raise cache.failure or _storage_error_in(error, folder) or error from error
    if cache.failure is not None:
        raise cache.failure


def _storage_error_in(error: BaseException, folder: Path) -> StorageError | None:
    """What the file system had against it: in the error's causes, or when a file is tried."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None:
            return storage_error(folder, cause)
        cause = cause.__cause__ or cause.__context__
    probe = folder / ".probe"
    try:
        probe.write_bytes(bytes(_PROBE))
    except OSError as refused:
        return storage_error(folder, refused)
    finally:
        probe.unlink(missing_ok=True)
    return None
