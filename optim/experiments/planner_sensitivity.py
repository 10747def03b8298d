"""Planner sensitivity: the same methods and the same solver, with one planner after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from optim.evaluate import Evaluation, evaluate
from optim.summary import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from optim.evaluate import Experiment
    from optim.evaluate.models import ModelSpec

__all__ = ["evaluate_planners"]


def evaluate_planners(
    experiment: Experiment, planners: Sequence[ModelSpec], *, console: Console | None = None
) -> Evaluation:
    """Run the experiment with each planner, in one folder; rows and records name theirs.

    Answers that need no planner are paid for once. A limit of tokens is for all of it.

    Raises:
        InputError: As `evaluate`.
    """
    runs = [evaluate(replace(experiment, planner=given), console=console) for given in planners]
    records = [record for run in runs for record in run.records]
    not_started = sum(run.not_started for run in runs)
    return Evaluation(records, rows(records), runs[-1].spent, not_started, runs[-1].log_dir)
