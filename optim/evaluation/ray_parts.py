"""Run the parts of an experiment as Ray tasks, with one token limit for all parts."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from optim.bench.store import REPLIES, ReplyCache, lock_run_dir
from optim.evaluation.experiment import Shard
from optim.evaluation.run import Evaluation, EvaluationError, run_here, show_progress
from optim.extras import require_modules
from optim.methods import methods
from optim.records import REMOTE, Records
from pb_graph.errors import InputError, PlanAndBudgetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.bench.bench import Meter
    from optim.datasets import Question
    from optim.evaluation.experiment import Experiment
    from optim.evaluation.run import Engine

_RESTARTS = 3  # of a part whose worker died


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
    Shard.parse(f"1/{parts}")
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
