"""Runs the parts of an experiment as Ray tasks, with one limit of tokens for all of them."""

from __future__ import annotations

import sys
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from optim.evaluation.run import Evaluation, EvaluationError, Progress, run_here
from optim.evaluation.store import REPLIES, ReplyCache, lock_run_dir
from optim.extras import require_modules
from optim.records.logs import REMOTE, read_records
from optim.records.shards import Shard
from pb_graph.errors import InputError, PlanAndBudgetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.datasets import Question
    from optim.evaluation.experiment import Experiment
    from optim.evaluation.run import Engine

_RESTARTS = 3  # of a part whose worker died


def on_ray(parts: int) -> Engine:
    """Return what runs an experiment in parts on Ray: ``evaluate(experiment, run=on_ray(64))``.

    The parts run on the cluster of ``RAY_ADDRESS`` or on the cores of this machine, each with a
    folder of its own in the log folder, which all nodes have to see. The limit of tokens is for all
    of them together. Ray repeats the task of a worker that died, which pays for nothing twice.

    Raises:
        InputError: There is no part.
        MissingPackageError: Ray is not installed.
    """
    Shard.parse(f"1/{parts}")
    require_modules("ray")
    return partial(_run_parts, parts)


def _run_parts(
    parts: int, experiment: Experiment, console: Console, questions: Sequence[Question]
) -> Evaluation:
    import ray  # noqa: PLC0415 -- of an extra

    experiment = _with_absolute_paths(experiment)
    root, limit = Path(experiment.log_dir), experiment.max_tokens_total
    folders = {number: root / f"part-{number}-of-{parts}" for number in range(1, parts + 1)}
    if others := set(root.glob("part-*-of-*")) - set(folders.values()):
        msg = f"{root} holds {min(others).name}: use as many parts as before, or another folder"
        raise InputError(msg)
    methods = [method.name for method in experiment.chosen_methods(questions)]
    samples = len(experiment.draw(questions)) * len(methods) * experiment.epochs
    with lock_run_dir(root), ExitStack() as ended:
        replies = {number: folder / REPLIES for number, folder in folders.items()}
        spent = {n: ReplyCache(path).spent if path.exists() else 0 for n, path in replies.items()}
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
        try:
            with Progress(samples, sum(spent.values()), limit, console) as progress:
                while tasks:
                    ready, _ = ray.wait(list(tasks), num_returns=len(tasks), timeout=1.0)
                    for task in ready:
                        _raise_failure(task, tasks.pop(task))
                    total, answers, errors = ray.get(account.totals.remote())
                    progress.show(total, answers, errors)
        finally:
            for task in tasks:
                ray.cancel(task)
        records = read_records(list(folders.values()), partial=True, methods=methods)
    return Evaluation(records, total, samples - len(records), root)


class _Account:
    """Tokens, answers and errors of each part: one actor, which all parts call."""

    def __init__(self, spent: dict[int, int]) -> None:
        self._parts = {number: [tokens, 0, 0] for number, tokens in spent.items()}

    def spend(self, part: int, tokens: int) -> int:
        self._parts[part][0] = tokens
        return self.totals()[0]

    def end(self, part: int, answers: int, errors: int) -> None:  # a repeated part counts anew
        self._parts[part][1:] = [answers, errors]

    def totals(self) -> list[int]:
        return [sum(column) for column in zip(*self._parts.values(), strict=True)]


def _run_part(experiment: Experiment, account: Any, number: int) -> None:  # noqa: ANN401
    """Answer a part in a worker."""
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


def _raise_failure(task: Any, number: int) -> None:  # noqa: ANN401
    import ray  # noqa: PLC0415

    try:
        ray.get(task)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, PlanAndBudgetError):
            raise cause from None
        reason = repr(cause) if cause else f"its worker died {_RESTARTS + 1} times"
        msg = f"part {number} failed: {reason}. Finished answers are kept; rerun the same command."
        raise EvaluationError(msg) from error


def _with_absolute_paths(experiment: Experiment) -> Experiment:
    if experiment.part is not None or REMOTE in str(experiment.log_dir) or experiment.work_dir:
        msg = "Ray runs all parts in a log_dir that all nodes see: leave --part and --work-dir out"
        raise InputError(msg)
    paths: dict[str, Any] = {
        name: Path(value).expanduser().resolve()
        for name in ("data", "planner_program", "log_dir")
        if isinstance(value := getattr(experiment, name), str | Path)
    }
    return replace(experiment, **paths)
