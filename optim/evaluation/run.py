"""Runs an experiment: all methods, the same questions, on Inspect, resumable after a kill.

Inspect runs and logs. The run folder also holds every paid reply under its request
(`optim.evaluation.store`). The same command makes the same requests, so it continues within a
question and pays only for what is missing. Inspect's own recovery of finished samples would lose
the steps of unfinished ones.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
import rich
from inspect_ai import eval as inspect_eval
from inspect_ai.model import get_model
from rich.console import Console

from optim.evaluation.experiment import Experiment
from optim.evaluation.inspect_models import PROVIDER
from optim.evaluation.models import build_models
from optim.evaluation.store import REPLIES, ReplyCache, lock_run_dir, storage_error
from optim.evaluation.task import Limits, MethodTask, OnEnd, make_method_task, make_task
from optim.records import Records
from optim.records.logs import BY_RUN, differences, log_headers, pool
from optim.records.shards import Shard
from optim.reporting.formatting import displayed, remarks, text_table
from optim.reporting.tables import answers, figures
from pb_graph.errors import InputError, PlanAndBudgetError
from pb_graph.models.options import TIMEOUT

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.evaluation.models import ModelSpec
    from optim.evaluation.task import TotalSpent
    from optim.records.logs import LogHeader
    from optim.scorers import Scorer
    from pb_graph.settings import Settings

    Engine = Callable[[Experiment, Console, Sequence[Question]], "Evaluation"]

_EVERY = 30.0  # seconds between two lines of progress where nothing can be drawn over
_FIRST = 5  # answers, from which the tokens of all are estimated
_FLUSHES = 50  # times that Inspect writes a log while it grows; each time it writes all of it


class EvaluationError(PlanAndBudgetError):
    """An evaluation failed as a whole, and not only single answers of it."""


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """The result of an experiment. Printed, or at the end of a notebook's cell, it is the table.

    Attributes:
        records: Every answer of its tasks, those of earlier runs included.
        spent: Completion tokens that the models wrote for this folder, shared plans once.
        not_started: Answers that were not begun because the limit had been reached.
        log_dir: Folder of the logs, or its address.
    """

    records: Records
    spent: int
    not_started: int
    log_dir: str | Path

    @property
    def figures(self) -> pd.DataFrame:
        """The figures of each method, see `optim.reporting.figures`."""
        return figures(answers(self.records))

    def __repr__(self) -> str:
        found = self.figures
        return "\n".join([text_table(displayed(found)), *remarks(found)])

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        found = self.figures
        notes = "".join(f"<p>{escape(note)}</p>" for note in remarks(found))
        return f"{displayed(found).to_html(index=False)}{notes}"


def evaluate(
    experiment: Experiment,
    *,
    planners: Sequence[ModelSpec] = (),
    confirm: Callable[[str, int], None] | None = None,
    console: Console | None = None,
    run: Engine | None = None,
) -> Evaluation:
    """Run an experiment, or the rest of it. In an event loop, call it in `asyncio.to_thread`.

    Args:
        experiment: The experiment.
        planners: Run it with each of these planners, in one folder; rows and records name theirs.
            Answers that need no planner are paid for once.
        confirm: Called before the run begins, with its size in a sentence and its number of
            answers. An error that it raises prevents the run.
        console: Where progress is shown; standard error when not given.
        run: Runs one experiment. None runs it in this process, `on_ray` in parts on Ray.

    Returns:
        The records and the table. An error in one answer is a record, and ends nothing.

    Raises:
        InputError: The experiment is wrong, another process uses the folder, or the folder holds
            the same task under other conditions.
        ModelSetupError: A model cannot be set up.
        ScorerError: The scorer cannot be set up.
        StorageError: The folder cannot be written.
        EvaluationError: A task failed.
    """
    console = console or Console(stderr=True)
    each = [replace(experiment, planner=planner) for planner in planners] or [experiment]
    questions = experiment.source.read()
    if confirm is not None:
        confirm(*_size(experiment, questions, len(each)))
    runs = [(run or run_here)(one, console, questions) for one in each]
    # A run on Ray returns the records of other planners in the folder, too.
    found = {(r.method, r.planner, r.question, r.epoch): r for run in runs for r in run.records}
    not_started = sum(run.not_started for run in runs)
    return replace(runs[-1], records=Records(found.values()), not_started=not_started)


def _size(experiment: Experiment, questions: Sequence[Question], planners: int) -> tuple[str, int]:
    """Return the size of a run in a sentence, and its number of answers."""
    model, limit = experiment.model, experiment.max_tokens_total
    part = Shard.parse(experiment.part) if experiment.part else None
    asked = sum(part is None or part.has(one.id) for one in experiment.draw(questions))
    names = [method.name for method in experiment.chosen_methods(questions)]
    total = asked * len(names) * experiment.epochs * planners
    epochs = f" x {experiment.epochs} epochs" if experiment.epochs > 1 else ""
    epochs += f" x {planners} planners" if planners > 1 else ""
    named = model if isinstance(model, str) else type(model).__name__ if model else "PB_MODEL"
    most = f"at most {limit:,} tokens" if limit else "without a limit of tokens"
    text = (
        f"{len(names)} methods ({', '.join(names)}) x {asked} questions{epochs} = {total:,} "
        f"answers by {named}, {most}."
    )
    return text, total


def run_here(
    experiment: Experiment,
    console: Console,
    questions: Sequence[Question],
    *,
    total_spent: TotalSpent | None = None,
    on_end: OnEnd = lambda _: None,
) -> Evaluation:
    """Run an experiment in this process; its source has these questions.

    Args:
        experiment: The experiment.
        console: Where progress is shown.
        questions: All questions of its source.
        total_spent: As in `Limits`, where other processes share the limit.
        on_end: Called when a sample ends.
    """
    drawn, methods = experiment.draw(questions), experiment.chosen_methods(questions)
    judge, folder = experiment.build_scorer(), experiment.folder
    with lock_run_dir(folder), closing(ReplyCache(folder / REPLIES)) as cache:
        models = build_models(
            experiment.model,
            experiment.planner,
            program=experiment.planner_program,
            settings=_model_settings([method.settings for method in methods]),
            cache=cache,
            cap_policy=experiment.cap_policy,
            sampling=experiment.sampling,
            fresh_plans=experiment.fresh_plans,
        )
        most = experiment.max_tokens_total
        limits = Limits(experiment.concurrency, most, cache, total_spent)
        tasks = [make_method_task(experiment, method, drawn, models) for method in methods]
        if left := _left_to_do(tasks, experiment):
            with _report_disk_errors(folder, cache), _restore_logging():
                _run(left, judge, limits, experiment, console, on_end)
            _delete_unfinished_logs(left, experiment)
        latest = _latest_logs(experiment)
        logs = [latest[task.key] for task in tasks if task.key in latest]
        records = Records(one for log in logs for one in pool([log], partial=True))
    return Evaluation(records, limits.spent, limits.skipped, experiment.log_dir)


class Progress:
    """A context manager that shows how far a run is: a live line, or at no terminal some lines.

    Args:
        samples: Number of answers of the run.
        spent: Completion tokens before the run.
        limit: Completion tokens after which no answer begins, or None.
        console: The console to draw on.
    """

    def __init__(self, samples: int, spent: int, limit: int | None, console: Console) -> None:
        self._samples, self._before, self._console = samples, spent, console
        self._of = "" if limit is None else f" of {limit}"
        self._began = self._printed = time.monotonic()
        self._status = console.status("")

    def __enter__(self) -> Self:
        if self._console.is_terminal:  # in a notebook the live line would be a widget
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def show(self, spent: int, answers: int, errors: int) -> None:
        """Show the counts of the whole run so far, and an estimate of all its tokens.

        Args:
            spent: Completion tokens.
            answers: Answers, errors included.
            errors: Answers without a score.
        """
        now = time.monotonic()
        line = (
            f"{answers} of {self._samples} answers, {errors} errors, {spent} completion tokens "
            f"spent{self._of}, {now - self._began:.0f} s"
        )
        if _FIRST <= answers < self._samples:
            total = self._before + (spent - self._before) * self._samples / answers
            line += f"; about {total:.0f} tokens in all"
        self._status.update(line)
        if not self._console.is_terminal and now - self._printed >= _EVERY:
            self._printed = now
            self._console.print(line)


def _run(  # noqa: PLR0913, PLR0917
    tasks: Sequence[MethodTask],
    judge: Scorer,
    limits: Limits,
    experiment: Experiment,
    console: Console,
    on_end: OnEnd,
) -> None:
    """Run the tasks side by side: a run that is cut short has them equally far.

    Raises:
        EvaluationError: A task failed as a whole.
        KeyboardInterrupt: The run was interrupted, which Inspect keeps to itself.
    """
    ended: list[bool] = []

    def count(is_scored: bool) -> None:
        ended.append(is_scored)
        progress.show(limits.spent, len(ended), ended.count(False))
        on_end(is_scored)

    samples = sum(task.samples for task in tasks)
    with Progress(samples, limits.spent, limits.tokens, console) as progress:
        logs = inspect_eval(
            [make_task(task, judge, limits, count) for task in tasks],
            model=get_model(f"{PROVIDER}/{tasks[0].metadata['model']}"),
            log_dir=str(experiment.log_dir),
            log_format="eval",
            log_buffer=max(1, tasks[0].samples // _FLUSHES),
            log_realtime=False,
            log_level="error",  # errors of samples are counted by the progress
            max_tasks=len(tasks),
            max_samples=experiment.concurrency,
            display="none",
            score_display=False,
            ctl_server=False,
            log_header_only=True,
        )
    if limits.interrupted or any(log.status == "cancelled" for log in logs):
        raise KeyboardInterrupt
    failed = next((log for log in logs if log.status != "success"), None)
    if failed or len(logs) < len(tasks):
        reason = f"Inspect ran {len(logs)} of {len(tasks)} tasks"
        if failed and failed.error:
            reason = f"the task {failed.eval.task} failed: {failed.error.message}"
        msg = f"{reason}. Finished answers are kept; rerun the same command for the others."
        raise EvaluationError(msg)


def _model_settings(rows: Sequence[Settings]) -> Settings:
    """Return settings for the models that all rows share: the most patient of each."""
    most: dict[str, float | None] = {"max_retries": max(row.max_retries for row in rows)}
    if any(row.timeout is not None for row in rows):
        most["timeout"] = max(row.timeout or TIMEOUT for row in rows)
    return rows[0].model_copy(update=most)


@contextmanager
def _report_disk_errors(folder: Path, cache: ReplyCache) -> Iterator[None]:
    """Raise `StorageError` if a run failed, or went on, with a folder that is not writable."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not (isinstance(cause, OSError) and cause.errno):
            cause = cause.__cause__ or cause.__context__
        failure = storage_error(folder, cause) if isinstance(cause, OSError) else error
        raise cache.failure or failure from error
    if cache.failure is not None:
        raise cache.failure


@contextmanager
def _restore_logging() -> Iterator[None]:
    """Restore the host's logging level and rich console, which Inspect changes for good."""
    root, console = logging.getLogger(), rich.get_console()
    level, printing = root.level, console.__dict__
    rich.reconfigure(quiet=True)  # which Inspect does the first time only
    try:
        yield
    finally:
        root.setLevel(level)
        console.__dict__ = printing


def _latest_logs(experiment: Experiment) -> dict[Any, LogHeader]:
    """Return the latest log of each task in the log folder itself."""
    headers = log_headers(experiment.log_dir)
    return {header.task: header for header in headers if header.is_in(experiment.log_dir)}


def _left_to_do(tasks: Sequence[MethodTask], experiment: Experiment) -> list[MethodTask]:
    """Return the tasks without a complete log.

    Raises:
        InputError: The folder holds one of the tasks under other conditions.
    """
    latest, left = _latest_logs(experiment), []
    for task in tasks:
        header = latest.get(task.key)
        now = task.metadata["conditions"]
        before = now if header is None else header.conditions
        if changes := differences(before, now, BY_RUN):
            msg = (
                f"{experiment.log_dir} already holds {task.key[1]!r} on {experiment.dataset!r} "
                f"under other conditions ({', '.join(changes)}). Use another --log-dir."
            )
            raise InputError(msg)
        if header is not None and header.log.status == "success" and not differences(before, now):
            failed, samples = header.errors_and_samples()
            if samples == task.samples and not (experiment.retry_errors and failed):
                continue
        if task.questions:
            left.append(task)
    return left


def _delete_unfinished_logs(tasks: Sequence[MethodTask], experiment: Experiment) -> None:
    """Delete the unfinished logs of these tasks: newer ones hold all their answers."""
    import fsspec  # type: ignore[import-untyped]  # noqa: PLC0415 -- comes with Inspect

    keys = {task.key for task in tasks}
    for header in log_headers(experiment.log_dir):
        unfinished = header.is_in(experiment.log_dir) and header.log.status != "success"
        if header.task in keys and unfinished:
            system, path = fsspec.core.url_to_fs(header.location)
            system.rm(path)
