"""Runs the parts of an experiment as Ray tasks: on one machine's cores, or a cluster's.

Each part is what ``--part i/n`` is, in a folder of its own below the log folder, which all nodes
have to see. Ray starts the task of a worker that died anew: its folder has what was paid for, so it
goes on. An actor knows what all parts have spent, and how far they are.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray import cloudpickle
from ray.exceptions import RayError, RayTaskError
from rich.console import Console
from rich.text import Text

from optim.evaluation.cache import REPLIES, ReplyCache
from optim.evaluation.progress import Progress
from optim.evaluation.resume import held
from optim.evaluation.run import Evaluation, EvaluationError, run_here
from optim.records import REMOTE, read_records
from optim.summary import rows
from pb_graph.errors import InputError, PlanAndBudgetError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optim.evaluation.experiment import Experiment
    from optim.evaluation.limits import TokenLimit
    from optim.evaluation.task import Job
    from pb_graph.types import Report

_RESTARTS = 3  # of a part whose worker died
_LOOKS = 1.0  # seconds between two looks at how far it is


@dataclass(frozen=True, slots=True)
class State:
    """How far a part is."""

    done: int = 0
    errors: int = 0
    spent: int = 0


class Account:
    """What the parts have spent and done: one actor, which all of them tell and ask."""

    def __init__(self, parts: Mapping[int, State]) -> None:
        self._parts = dict(parts)

    def spend(self, part: int, tokens: int) -> int:
        """Note what a part has spent; give what all have."""
        self._parts[part] = replace(self._parts[part], spent=tokens)
        return sum(one.spent for one in self._parts.values())

    def note(self, part: int, state: State) -> None:
        """Note how far a part is."""
        self._parts[part] = state

    def parts(self) -> dict[int, State]:
        """How far each is."""
        return self._parts


def run_parts(experiment: Experiment, parts: int, console: Console) -> Evaluation:
    """Run an experiment in parts on Ray, and pool them; `optim.evaluation.evaluate` is the way in.

    Raises:
        InputError: As `evaluate`; or the experiment cannot be sent to other processes, or the
            folder is cut otherwise.
        EvaluationError: A part's workers died again and again. The same command goes on.
        PlanAndBudgetError: Whatever ended a part.
    """
    experiment = _everywhere(experiment)
    questions = experiment.drawn()
    methods = [method.name for method in experiment.chosen_methods(questions)]
    samples = len(questions) * len(methods) * experiment.epochs
    root = Path(experiment.log_dir)
    with held(root), ExitStack() as ended:
        folders = _folders(root, parts)
        earlier = {n: State(spent=ReplyCache(f / REPLIES).spent) for n, f in folders.items()}
        ended.enter_context(redirect_stdout(sys.stderr))  # Ray tells there of workers that died
        if not ray.is_initialized():
            ray.init(log_to_driver=False, configure_logging=False)
            ended.callback(ray.shutdown)
        account: Any = ray.remote(num_cpus=0)(Account).remote(earlier)
        work: Any = ray.remote(num_cpus=1, max_retries=_RESTARTS)(_work)
        tasks = {
            work.remote(
                replace(experiment, part=f"{number}/{parts}", log_dir=folder), account, number
            ): number
            for number, folder in folders.items()
        }
        with _PartsProgress(parts, samples, experiment.max_tokens_total, console) as progress:
            outcomes = _awaited(tasks, account, progress)
        records = read_records(list(folders.values()), partial=True, methods=methods)
    spent, not_started = (sum(figures) for figures in zip(*outcomes, strict=True))
    return Evaluation(records, rows(records), spent, not_started, root)


def _work(experiment: Experiment, account: Any, number: int) -> tuple[int, int]:  # noqa: ANN401
    """Answer a part, in a worker; give what it has spent, and how many answers were not begun."""

    def together(spent: int) -> int:
        total: int = ray.get(account.spend.remote(number, spent))
        return total

    found = run_here(
        experiment,
        Console(quiet=True),
        together=together,
        progress=lambda _, limit, __: nullcontext(_Watch(account, number, limit)),
    )
    errors = sum(record.score is None for record in found.records)
    account.note.remote(number, State(len(found.records), errors, found.spent))
    return found.spent, found.not_started


class _Watch:
    """Tells the account how far its part is."""

    def __init__(self, account: Any, number: int, limit: TokenLimit) -> None:  # noqa: ANN401
        self._account, self._number, self._limit = account, number, limit
        self._done = self._errors = 0

    def scored(self, job: Job, score: float, report: Report) -> None:  # noqa: ARG002
        """A sample was answered and scored."""
        self._ended(error=False)

    def failed(self, job: Job) -> None:  # noqa: ARG002
        """A sample has no score."""
        self._ended(error=True)

    def _ended(self, *, error: bool) -> None:
        self._done, self._errors = self._done + 1, self._errors + error
        state = State(self._done, self._errors, self._limit.spent)
        self._account.note.remote(self._number, state)


class _PartsProgress(Progress):
    """One line for all parts."""

    def __init__(self, parts: int, samples: int, most: int | None, console: Console) -> None:
        super().__init__(console, redirects=True)
        self._parts, self._samples, self._most = parts, samples, most
        self._states: Sequence[State] = ()
        self._ended = 0

    def moved(self, states: Mapping[int, State], ended: int) -> None:
        """Show how far all of them are."""
        self._states, self._ended = list(states.values()), ended
        self._moved()

    def _line(self) -> Text:
        done, errors, spent = (
            sum(getattr(one, name) for one in self._states) for name in ("done", "errors", "spent")
        )
        parts = f"{self._ended} of {self._parts} parts, "
        return self._told(f"{parts}{done} of {self._samples}", errors, spent, self._most)


def _awaited(
    tasks: dict[Any, int],
    account: Any,  # noqa: ANN401
    progress: _PartsProgress,
) -> list[tuple[int, int]]:
    """Wait for every part; one that breaks off, and an interrupt, ends the others."""
    outcomes: list[tuple[int, int]] = []
    left = dict(tasks)
    try:
        while left:
            ready, _ = ray.wait(list(left), num_returns=len(left), timeout=_LOOKS)
            outcomes += [_outcome(task, left.pop(task)) for task in ready]
            progress.moved(ray.get(account.parts.remote()), len(outcomes))
    finally:
        for task in left:
            ray.cancel(task)
    return outcomes


def _outcome(task: Any, number: int) -> tuple[int, int]:  # noqa: ANN401
    try:
        outcome: tuple[int, int] = ray.get(task)
    except RayTaskError as error:
        if isinstance(error.cause, PlanAndBudgetError):
            raise error.cause from None
        msg = f"part {number} broke off: {error.cause!r}. What was finished is kept."
        raise EvaluationError(msg) from error
    except RayError as error:
        msg = (
            f"the worker of part {number} died {_RESTARTS + 1} times ({type(error).__name__}). "
            "What was finished is kept, and the same command goes on."
        )
        raise EvaluationError(msg) from error
    return outcome


def _everywhere(experiment: Experiment) -> Experiment:
    """The experiment as any process can have it: paths in full."""
    if experiment.part is not None:
        msg = "Ray runs all parts: leave --part out, and say how many with --parts"
        raise InputError(msg)
    if REMOTE in str(experiment.log_dir) or experiment.work_dir:
        msg = "on Ray, log_dir is a folder that all nodes see, and there is no work_dir beside it"
        raise InputError(msg)
    paths: dict[str, Any] = {
        name: Path(value).expanduser().resolve()
        for name in ("data", "planner_program", "log_dir")
        if isinstance(value := getattr(experiment, name), str | Path)
    }
    experiment = replace(experiment, **paths)
    try:
        cloudpickle.dumps(experiment)  # type: ignore[no-untyped-call]
    except Exception as error:
        msg = (
            f"the experiment cannot be sent to Ray's workers ({error}): give models by name "
            "('openai:gpt-5-mini'), and scorers of a module that they can import"
        )
        raise InputError(msg) from error
    return experiment


def _folders(root: Path, parts: int) -> dict[int, Path]:
    """A folder for each part."""
    folders = {number: root / f"part-{number}-of-{parts}" for number in range(1, parts + 1)}
    others = sorted(set(root.glob("part-*-of-*")) - set(folders.values()))
    if others:
        msg = (
            f"{root} was cut in {others[0].name.rpartition('-')[2]} parts, not in {parts}: go on "
            "with that number of --parts, or use another --log-dir"
        )
        raise InputError(msg)
    return folders
