"""The way into an evaluation: `evaluate` runs an experiment in this process or on Ray."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from optim.evaluation.run import Evaluation, run_here
from optim.extras import require_modules
from optim.records import Records
from optim.records.shards import DEFAULT_SHARDS, Shard
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from optim.datasets import Question
    from optim.evaluation.experiment import Experiment
    from optim.evaluation.models import ModelSpec


@dataclass(frozen=True, slots=True)
class Outline:
    """The size of an evaluation, before it begins.

    Attributes:
        questions: Number of questions.
        methods: Names of the methods.
        epochs: Repetitions of each question.
        planners: Number of planners that are compared.
        model: Name of the solving model.
        limit: Completion tokens after which no answer begins, or None.
    """

    questions: int
    methods: tuple[str, ...]
    epochs: int
    planners: int
    model: str
    limit: int | None

    @property
    def answers(self) -> int:
        """Number of answers."""
        return self.questions * len(self.methods) * self.epochs * self.planners

    def __str__(self) -> str:
        """Return the outline in a sentence."""
        epochs = f" x {self.epochs} epochs" if self.epochs > 1 else ""
        planners = f" x {self.planners} planners" if self.planners > 1 else ""
        limit = f"at most {self.limit:,} tokens" if self.limit else "without a limit of tokens"
        return (
            f"{len(self.methods)} methods ({', '.join(self.methods)}) x {self.questions} "
            f"questions{epochs}{planners} = {self.answers:,} answers by {self.model}, {limit}."
        )


def evaluate(  # noqa: PLR0913 -- all but one by name
    experiment: Experiment,
    *,
    planners: Sequence[ModelSpec] = (),
    confirm: Callable[[Outline], None] | None = None,
    console: Console | None = None,
    engine: Literal["here", "ray"] = "here",
    parts: int = DEFAULT_SHARDS,
) -> Evaluation:
    """Run an experiment, or the rest of it.

    Args:
        experiment: The experiment.
        planners: Run it with each of these planners, in one folder; rows and records name theirs.
            Answers that need no planner are paid for once.
        confirm: Told of the size of the run before it begins. An error that it raises prevents it.
        console: Where progress is shown; standard error when not given.
        engine: ``here`` runs in this process. ``ray`` runs parts of the questions as Ray tasks, on
            the cluster of ``RAY_ADDRESS`` or the cores of this machine, each with a folder of its
            own in the log folder. The limit of tokens is for all of them together, and
            ``concurrency`` for each.
        parts: Number of parts on Ray.

    Returns:
        The records and the table. An error in one answer is a record, and ends nothing.

    Raises:
        InputError: The experiment is wrong, another process uses the folder, or the folder holds
            the same task under other conditions; or an event loop is running.
        MissingPackageError: Ray is not installed.
        ModelSetupError: A model cannot be set up.
        ScorerError: The scorer cannot be set up.
        StorageError: The folder cannot be written.
        EvaluationError: A task failed.
    """
    console = console or Console(stderr=True)
    if engine not in {"here", "ray"} or parts < 1:
        msg = f"the engine is here or ray, and there is at least 1 part, not {engine!r}, {parts}"
        raise InputError(msg)
    if engine == "here":
        _refuse_event_loop()
    else:
        require_modules("ray")
    each = [replace(experiment, planner=planner) for planner in planners] or [experiment]
    questions = experiment.source.read()
    if confirm is not None:
        confirm(_outline(experiment, questions, len(each)))
    if engine == "here":
        runs = [run_here(one, console, questions) for one in each]
    else:
        from optim.evaluation.ray_engine import run_parts  # noqa: PLC0415 -- of an extra

        runs = [run_parts(one, parts, console, questions) for one in each]
    # A run on Ray returns the records of other planners in the folder, too.
    answers = {(r.method, r.planner, r.question, r.epoch): r for run in runs for r in run.records}
    records = Records(answers.values())
    not_started = sum(run.not_started for run in runs)
    return Evaluation(records, runs[-1].spent, not_started, runs[-1].log_dir)


def _outline(experiment: Experiment, questions: Sequence[Question], planners: int) -> Outline:
    drawn, model = experiment.draw(questions), experiment.model
    part = Shard.parse(experiment.part) if experiment.part else None
    return Outline(
        questions=sum(part is None or part.has(question.id) for question in drawn),
        methods=tuple(method.name for method in experiment.chosen_methods(questions)),
        epochs=experiment.epochs,
        planners=planners,
        model=model if isinstance(model, str) else type(model).__name__ if model else "PB_MODEL",
        limit=experiment.max_tokens_total,
    )


def _refuse_event_loop() -> None:
    """Refuse a running event loop: Inspect runs its own, in notebooks within that one."""
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
