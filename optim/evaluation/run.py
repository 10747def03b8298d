"""Run an experiment on Inspect, here or in parts on Ray: resumable after a kill.

Inspect runs and logs. The run folder also holds every paid reply under its request
(`optim.bench.store`). The same command makes the same requests, so it continues within a
question and pays only for what is missing. Inspect's own recovery of finished samples would lose
the steps of unfinished ones.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import rich
from inspect_ai import Task
from inspect_ai import eval as inspect_eval
from inspect_ai.log import EvalLog
from inspect_ai.model import get_model
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from optim.bench.bench import Meter, Share, build_models
from optim.bench.store import REPLIES, ReplyCache, StorageError, lock_run_dir
from optim.datasets import Question
from optim.evaluation.experiment import Experiment, read_part
from optim.evaluation.task import PROVIDER, make_task
from optim.extras import require_modules
from optim.methods import methods
from optim.records import (
    BY_RUN,
    REMOTE,
    Records,
    differences,
    log_headers,
    metadata_of,
    pool,
    task_key,
)
from optim.reporting.formatting import displayed, remarks, text_table
from optim.reporting.tables import answers, figures
from optim.scorers import as_scorer
from pb_graph.errors import InputError, PlanAndBudgetError

Engine = Callable[[Experiment, Console, Sequence[Question]], "Evaluation"]
"""Runs an experiment on questions, and shows its progress."""

_EVERY = 30.0  # seconds between two lines of progress where nothing can be drawn over
_FIRST = 5  # answers, from which the tokens of all are estimated
_RESTARTS = 3  # of a part whose worker died
_FLUSHES = 50  # times that Inspect writes a log while it grows; each time it writes all of it


class EvaluationError(PlanAndBudgetError):
    """A whole evaluation failed."""


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """The result of an experiment. Printing it, or showing it in a notebook, displays the table.

    Attributes:
        records: Every answer of its tasks, earlier runs included.
        spent: Completion tokens that the models wrote for this folder, shared plans once.
        not_started: Answers that were not started because the limit had been reached.
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
        figures = self.figures
        return "\n".join([text_table(displayed(figures)), *remarks(figures)])

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        figures = self.figures
        notes = "".join(f"<p>{escape(note)}</p>" for note in remarks(figures))
        return f"{displayed(figures).to_html(index=False)}{notes}"


def evaluate(
    experiment: Experiment,
    *,
    confirm: Callable[[str, int], None] | None = None,
    console: Console | None = None,
    run: Engine | None = None,
) -> Evaluation:
    """Run an experiment, or the rest of it. In an event loop, call it in `asyncio.to_thread`.

    Args:
        experiment: The experiment.
        confirm: Called before the run begins, with its size in a sentence and its number of
            answers. An error that it raises prevents the run.
        console: Where progress is shown; standard error when not given.
        run: Runs the experiment. None runs it in this process, `on_ray` in parts on Ray.

    Returns:
        The records and the table. An error in one answer is a record, and ends nothing.

    Raises:
        InputError: If the experiment is invalid, another process uses the folder, or the folder
            holds the same task with other conditions.
        ModelSetupError: If a model cannot be set up.
        ScorerError: If the scorer cannot be set up.
        StorageError: If the folder cannot be written.
        EvaluationError: If a task failed.
    """
    as_scorer(experiment.chosen_scorer)  # all that can be refused is refused first
    questions = experiment.load()
    if confirm is not None:
        model, limit = experiment.model, experiment.account()
        count = len(experiment.in_part(questions))
        names = [method.name for method in experiment.chosen_methods(questions)]
        total = count * len(names) * experiment.epochs
        epochs = f" x {experiment.epochs} epochs" if experiment.epochs > 1 else ""
        name = model if isinstance(model, str) else type(model).__name__ if model else "PB_MODEL"
        bound = f"at most {limit.total:,} {limit.unit}" if limit else "without a limit"
        size = f"{len(names)} methods ({', '.join(names)}) x {count} questions{epochs} = {total:,} "
        confirm(f"{size}answers by {name}, {bound}.", total)
    return (run or run_here)(experiment, console or Console(stderr=True), questions)


def run_here(
    experiment: Experiment,
    console: Console,
    questions: Sequence[Question],
    *,
    share: Share | None = None,
) -> Evaluation:
    """Run an experiment in this process."""
    rows, folder = experiment.chosen_methods(questions), experiment.folder
    judge = as_scorer(experiment.chosen_scorer)
    with lock_run_dir(folder), closing(ReplyCache(folder / REPLIES, experiment.account())) as cache:
        models = build_models(
            experiment.model,
            experiment.planner,
            settings=rows[0].settings,
            cache=cache,
            cap_policy=experiment.cap_policy,
            temperature=experiment.temperature,
        )
        if experiment.epochs > 1 and models.temperature == 0:
            msg = "epochs at temperature 0 give the same answer each time: set --temperature 0.7"
            raise InputError(msg)
        meter = Meter(experiment.concurrency, cache, share)
        rows = rows if experiment.in_part(questions) else ()  # Inspect takes no empty task
        tasks = [make_task(experiment, row, questions, models, judge, meter) for row in rows]
        keys = [task_key(task.metadata or {}) for task in tasks]
        latest = _latest_logs(experiment)
        todo = [
            task
            for key, task in zip(keys, tasks, strict=True)
            if _is_left(task, latest.get(key), experiment)
        ]
        if todo:
            samples = sum(map(_samples, todo))
            with show_progress(samples, cache.spent, console) as show:
                meter.watch = lambda: show(cache.spent, meter.answers, meter.errors)
                _run(todo, meter, experiment)
        latest = _latest_logs(experiment)
        logs = [latest[key] for key in keys if key in latest]
        records = Records(record for log in logs for record in pool([log], partial=True))
        return Evaluation(records, cache.spent, meter.skipped, experiment.log_dir)


@contextmanager
def show_progress(
    samples: int, spent: int, console: Console
) -> Iterator[Callable[[int, int, int], None]]:
    """Show the progress of a run: a live bar, or outside a terminal an occasional line."""
    start, began = spent, time.monotonic()
    printed = began
    bar = Progress(BarColumn(), TextColumn("{task.description}"), console=console, transient=True)
    task = bar.add_task("the first answers are under way", total=samples)

    def show(spent: int, answers: int, errors: int) -> None:
        nonlocal printed
        now = time.monotonic()
        line = f"{answers} of {samples} answers, {errors} errors, {spent} completion tokens spent"
        if _FIRST <= answers < samples:
            rate, total = answers / (now - began), start + (spent - start) * samples / answers
            left = timedelta(seconds=round((samples - answers) / rate))
            line += f"; {60 * rate:.0f} a minute, {left} left; about {total:.0f} tokens in all"
        bar.update(task, completed=answers, description=line)
        if not console.is_terminal and now - printed >= _EVERY:
            printed = now
            console.print(line)

    with bar if console.is_terminal else nullcontext():  # in a notebook it would be a widget
        yield show


def _run(tasks: Sequence[Task], meter: Meter, experiment: Experiment) -> None:
    """Run the tasks side by side, so that an interrupted run has equal progress in all tasks."""
    try:
        with _own_display():
            logs = inspect_eval(
                list(tasks),
                model=get_model(f"{PROVIDER}/{(tasks[0].metadata or {})['model']}"),
                log_dir=str(experiment.log_dir),
                log_format="eval",
                log_buffer=max(1, _samples(tasks[0]) // _FLUSHES),
                log_realtime=False,
                log_level="error",  # errors of samples are counted by the progress
                max_tasks=len(tasks),
                max_samples=experiment.concurrency,
                display="none",
                score_display=False,
                ctl_server=False,
                log_header_only=True,
            )
    except OSError as error:
        raise StorageError(experiment.folder, error) from error
    finally:
        if meter.cache.failure is not None:
            raise meter.cache.failure
    if meter.interrupted or any(log.status == "cancelled" for log in logs):
        raise KeyboardInterrupt
    failed = next((log for log in logs if log.status != "success"), None)
    if failed or len(logs) < len(tasks):
        reason = (
            failed.error.message if failed and failed.error else "Inspect did not run all samples"
        )
        msg = f"a task failed: {reason}. Finished answers are kept; rerun the same command."
        raise EvaluationError(msg)


@contextmanager
def _own_display() -> Iterator[None]:
    """Restore the host's logging level and rich console, which Inspect changes for good."""
    root, console = logging.getLogger(), rich.get_console()
    level, printing = root.level, console.__dict__
    rich.reconfigure(quiet=True)  # which Inspect does the first time only
    try:
        yield
    finally:
        root.setLevel(level)
        console.__dict__ = printing


def _samples(task: Task) -> int:
    return len(task.dataset) * (task.epochs or 1)


def _latest_logs(experiment: Experiment) -> dict[tuple[str, ...], EvalLog]:
    """Return the latest log of each task in the log folder itself."""
    logs = log_headers(experiment.log_dir, recursive=False)
    return {task_key(metadata_of(log)): log for log in logs}


def _is_left(task: Task, log: EvalLog | None, experiment: Experiment) -> bool:
    """Return whether a task has no log with a score for each of its answers."""
    if log is None:
        return True
    about = task.metadata or {}
    old, new = metadata_of(log)["conditions"], about["conditions"]
    if changes := differences(old, new, BY_RUN):
        msg = (
            f"{experiment.log_dir} already holds {about['method']!r} on {experiment.label!r} "
            f"under other conditions ({', '.join(changes)}). Use another --log-dir."
        )
        raise InputError(msg)
    scored = log.results.completed_samples if log.results else 0
    return bool(differences(old, new)) or scored != _samples(task)


def on_ray(parts: int) -> Engine:
    """Return a runner of an experiment in parts on Ray: ``evaluate(experiment, run=on_ray(64))``.

    The parts run on the cluster of ``RAY_ADDRESS`` or on the cores of this machine, each with its
    own subfolder of the log folder, which all nodes must be able to access. The limit of tokens is
    for all of them together. Ray repeats the task of a worker that died, which pays for nothing
    twice.

    Raises:
        InputError: If there is no part.
        MissingPackageError: If Ray is not installed.
    """
    read_part(f"1/{parts}")
    require_modules("ray")
    return partial(_run_parts, parts)


def _run_parts(
    parts: int, experiment: Experiment, console: Console, questions: Sequence[Question]
) -> Evaluation:
    import ray  # noqa: PLC0415 -- of an extra

    if experiment.part is not None or REMOTE in str(experiment.log_dir):
        msg = "Ray needs one local log_dir that all nodes can read. Remove --part and s3://."
        raise InputError(msg)
    root = Path(experiment.log_dir).resolve()
    folders = [root / f"part-{number}-of-{parts}" for number in range(1, parts + 1)]
    if others := set(root.glob("part-*-of-*")) - set(folders):
        msg = f"{root} holds {min(others).name}: use as many parts as before, or another folder"
        raise InputError(msg)
    rows = methods(experiment.methods, experiment.settings, experiment.planner_program)
    experiment = replace(experiment, methods=rows, planner_program=None)  # no node reads a file
    names = [method.name for method in experiment.chosen_methods(questions)]
    with lock_run_dir(root):
        spent = [_spent(folder / REPLIES, experiment) for folder in folders]
        ray.init(log_to_driver=False, configure_logging=False, ignore_reinit_error=True)
        account: Any = ray.remote(num_cpus=0)(_Account).remote(spent)
        run_part: Any = ray.remote(num_cpus=1, max_retries=_RESTARTS)(_run_part)
        stored_questions, evaluations = ray.put(list(questions)), list[Evaluation]()
        tasks = {}
        for place, folder in enumerate(folders):
            piece = replace(experiment, part=f"{place + 1}/{parts}", log_dir=folder)
            tasks[run_part.remote(piece, stored_questions, account, place)] = piece.part
        try:
            samples = len(questions) * len(names) * experiment.epochs
            with show_progress(samples, int(sum(tokens for tokens, _ in spent)), console) as show:
                while tasks:
                    ready, _ = ray.wait(list(tasks), num_returns=len(tasks), timeout=1.0)
                    evaluations += [_result(task, tasks.pop(task)) for task in ready]
                    show(*ray.get(account.totals.remote())[:3])
        finally:
            for task in tasks:
                ray.cancel(task)
    records = Records(record for part in evaluations for record in part.records)
    records.sort(key=lambda record: names.index(record.method))
    not_started = sum(part.not_started for part in evaluations)
    return Evaluation(records, sum(part.spent for part in evaluations), not_started, root)


def _spent(file: Path, experiment: Experiment) -> tuple[float, float]:
    """Return the completion tokens in a part's store, and what they are of the limit."""
    if not file.exists():
        return 0, 0
    with closing(ReplyCache(file, experiment.account())) as cache:
        return cache.spent, cache.limit.spent if cache.limit else 0


class _Account:
    """Actor that counts the tokens, answers and errors of all parts, and their limit."""

    def __init__(self, spent: list[tuple[float, float]]) -> None:
        self._parts = [[tokens, 0, 0, amount] for tokens, amount in spent]

    def note(self, place: int, *counts: float) -> float:
        self._parts[place] = list(counts)
        return self.totals()[-1]

    def totals(self) -> list[float]:
        return [sum(column) for column in zip(*self._parts, strict=True)]


def _run_part(
    experiment: Experiment,
    questions: Sequence[Question],
    account: Any,  # noqa: ANN401
    place: int,
) -> Evaluation:
    """Answer a part in a worker."""

    def share(meter: Meter) -> Any:  # noqa: ANN401 -- awaitable
        limit = meter.cache.limit
        counts = meter.cache.spent, meter.answers, meter.errors, limit.spent if limit else 0
        return account.note.remote(place, *counts)

    return run_here(experiment, Console(quiet=True), questions, share=share)


def _result(task: Any, part: str | None) -> Evaluation:  # noqa: ANN401
    """Return the result of a part that ended, or raise the reason why it failed."""
    import ray  # noqa: PLC0415

    try:
        evaluation: Evaluation = ray.get(task)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        if isinstance(cause, PlanAndBudgetError):
            raise cause from None
        msg = f"part {part} failed: {cause!r}. Finished answers are kept; rerun the same command."
        raise EvaluationError(msg) from error
    return evaluation
