"""The way into an evaluation: `evaluate` runs an experiment in this process, or in parts on Ray."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from optim.evaluation.experiment import Experiment
from optim.evaluation.limits import Progress
from optim.evaluation.run import Evaluation, EvaluationError, run_here
from optim.evaluation.store import REPLIES, ReplyCache, lock_run_dir
from optim.extras import require_modules
from optim.records import REMOTE, Records, read_records
from optim.records.shards import Shard
from pb_graph.errors import InputError, PlanAndBudgetError

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.evaluation.models import ModelSpec

_RESTARTS = 3  # of a part whose worker died
_LOOK_EVERY = 1.0  # seconds between two looks at the progress


def evaluate(
    experiment: Experiment,
    *,
    planners: Sequence[ModelSpec] = (),
    confirm: Callable[[str, int], None] | None = None,
    console: Console | None = None,
    ray_parts: int | None = None,
) -> Evaluation:
    """Run an experiment, or the rest of it. In an event loop, call it in `asyncio.to_thread`.

    Args:
        experiment: The experiment.
        planners: Run it with each of these planners, in one folder; rows and records name theirs.
            Answers that need no planner are paid for once.
        confirm: Called before the run begins, with its size in a sentence and its number of
            answers. An error that it raises prevents the run.
        console: Where progress is shown; standard error when not given.
        ray_parts: Run so many parts of the questions as Ray tasks, on the cluster of
            ``RAY_ADDRESS`` or the cores of this machine, each with a folder of its own in the log
            folder. The limit of tokens is for all of them together, and ``concurrency`` for each.
            None runs in this process.

    Returns:
        The records and the table. An error in one answer is a record, and ends nothing.

    Raises:
        InputError: The experiment is wrong, another process uses the folder, or the folder holds
            the same task under other conditions.
        MissingPackageError: Ray is not installed.
        ModelSetupError: A model cannot be set up.
        ScorerError: The scorer cannot be set up.
        StorageError: The folder cannot be written.
        EvaluationError: A task failed.
    """
    console = console or Console(stderr=True)
    if ray_parts is not None:
        Shard.parse(f"1/{ray_parts}")
        require_modules("ray")
    each = [replace(experiment, planner=planner) for planner in planners] or [experiment]
    questions = experiment.source.read()
    if confirm is not None:
        confirm(*_size(experiment, questions, len(each)))
    runs = [
        run_here(one, console, questions)
        if ray_parts is None
        else _run_parts(one, ray_parts, console, questions)
        for one in each
    ]
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


class _Account:
    """Tokens, answers and errors of each part: one actor, which all parts call."""

    def __init__(self, spent: dict[int, int]) -> None:
        self._parts = {number: [tokens, 0, 0] for number, tokens in spent.items()}

    def spend(self, part: int, tokens: int) -> int:
        """Set the tokens of a part, and return those of all parts."""
        self._parts[part][0] = tokens
        return self.totals()[0]

    def end(self, part: int, answers: int, errors: int) -> None:
        """Set the answers and errors of a part; a repeated part counts anew."""
        self._parts[part][1:] = [answers, errors]

    def totals(self) -> list[int]:
        """Return tokens, answers and errors of all parts."""
        return [sum(column) for column in zip(*self._parts.values(), strict=True)]


def _run_parts(
    experiment: Experiment, parts: int, console: Console, questions: Sequence[Question]
) -> Evaluation:
    """Run an experiment as Ray tasks, one for each part, and pool them.

    Each part has a folder of its own below the log folder, which all nodes have to see. Ray repeats
    the task of a worker that died: its folder has the paid replies, so nothing is paid for twice.
    """
    import ray  # noqa: PLC0415 -- of an extra

    experiment = _with_absolute_paths(experiment)
    root = Path(experiment.log_dir)
    folders = {number: root / f"part-{number}-of-{parts}" for number in range(1, parts + 1)}
    others = sorted(set(root.glob("part-*-of-*")) - set(folders.values()))
    if others:
        cut = others[0].name.rpartition("-")[2]
        msg = f"{root} is cut in {cut} parts, not in {parts}: use --ray {cut}, or another folder"
        raise InputError(msg)
    methods = [method.name for method in experiment.chosen_methods(questions)]
    samples = len(experiment.draw(questions)) * len(methods) * experiment.epochs
    with lock_run_dir(root), ExitStack() as ended:
        spent = {number: _spent_in(folder) for number, folder in folders.items()}
        ended.enter_context(redirect_stdout(sys.stderr))  # Ray reports dead workers there
        if not ray.is_initialized():
            ray.init(log_to_driver=False, configure_logging=False)
            ended.callback(ray.shutdown)
        account: Any = ray.remote(num_cpus=0)(_Account).remote(spent)
        run_part: Any = ray.remote(num_cpus=1, max_retries=_RESTARTS)(_run_part)
        tasks = {
            run_part.remote(replace(experiment, part=f"{n}/{parts}", log_dir=folder), account, n): n
            for n, folder in folders.items()
        }
        outcomes: list[tuple[int, int]] = []
        try:
            before, limit = sum(spent.values()), experiment.max_tokens_total
            with Progress(samples, before, limit, console) as progress:
                while tasks:
                    ready, _ = ray.wait(list(tasks), num_returns=len(tasks), timeout=_LOOK_EVERY)
                    outcomes += [_outcome(task, tasks.pop(task)) for task in ready]
                    progress.show(*ray.get(account.totals.remote()))
        finally:
            for task in tasks:
                ray.cancel(task)
        records = read_records(list(folders.values()), partial=True, methods=methods)
    total, not_started = (sum(figures) for figures in zip(*outcomes, strict=True))
    return Evaluation(records, total, not_started, root)


def _run_part(experiment: Experiment, account: Any, number: int) -> tuple[int, int]:  # noqa: ANN401
    """Answer a part in a worker; return its tokens and the answers that were not begun."""
    import ray  # noqa: PLC0415

    ended: list[bool] = []

    async def total_spent(spent: int) -> int:
        total: int = await account.spend.remote(number, spent)  # off the event loop
        return total

    def on_end(is_scored: bool) -> None:
        ended.append(is_scored)
        account.end.remote(number, len(ended), ended.count(False))

    console, questions = Console(quiet=True), experiment.source.read()
    found = run_here(experiment, console, questions, total_spent=total_spent, on_end=on_end)
    ray.get(account.spend.remote(number, found.spent))
    return found.spent, found.not_started


def _spent_in(folder: Path) -> int:
    """Return the completion tokens that earlier runs in a folder spent."""
    if not (folder / REPLIES).exists():
        return 0
    with closing(ReplyCache(folder / REPLIES)) as cache:
        return cache.spent


def _outcome(task: Any, number: int) -> tuple[int, int]:  # noqa: ANN401
    import ray  # noqa: PLC0415
    from ray.exceptions import RayError, RayTaskError  # noqa: PLC0415

    try:
        outcome: tuple[int, int] = ray.get(task)
    except RayError as error:
        cause = error.cause if isinstance(error, RayTaskError) else None
        if isinstance(cause, PlanAndBudgetError):
            raise cause from None
        reason = repr(cause) if cause else f"its worker died {_RESTARTS + 1} times"
        msg = f"part {number} failed: {reason}. Finished answers are kept; rerun the same command."
        raise EvaluationError(msg) from error
    return outcome


def _with_absolute_paths(experiment: Experiment) -> Experiment:
    """Return the experiment with absolute paths."""
    if experiment.part is not None or REMOTE in str(experiment.log_dir) or experiment.work_dir:
        msg = "Ray runs all parts in a log_dir that all nodes see: leave --part and --work-dir out"
        raise InputError(msg)
    paths: dict[str, Any] = {
        name: Path(value).expanduser().resolve()
        for name in ("data", "planner_program", "log_dir")
        if isinstance(value := getattr(experiment, name), str | Path)
    }
    return replace(experiment, **paths)
