"""Inspect's tasks, one for each data set: ``inspect eval plan_and_budget/math500 --model ...``.

Inspect loads this module by its entry point; the rest loads when a task is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from inspect_ai import Task, task

from optim.datasets import DATASETS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TASKS"]


def _registered(dataset: str) -> Callable[..., Task]:
    def make(  # noqa: PLR0913, PLR0917 -- Inspect reads the options of -T off this signature
        method: str = "default",
        settings: dict[str, Any] | None = None,
        program: str | None = None,
        data: str | None = None,
        split: str | None = None,
        limit: int | None = None,
        levels: int | Sequence[int] | None = None,
        scorer: str | None = None,
        estimate_level: bool = False,
        seed: int = 0,
    ) -> Task:
        """Make the task of one method.

        Args:
            method: Name of a method, as `pb-optim eval --methods` takes it.
            settings: Settings of the graph, such as ``{"cutoff": 1500}``.
            program: File that `pb-optim tune` wrote.
            data: Local file of the questions, instead of the hub.
            split: Split of the hub, instead of the usual one.
            limit: Number of questions, drawn evenly over the levels. Inspect's ``--limit`` takes
                the first of these.
            levels: Levels to keep, such as ``1`` or ``1,2``.
            scorer: Name of a scorer, instead of the data set's own.
            estimate_level: Whether the planner estimates a question's level, and is paid for that.
            seed: Seed of the draw.
        """
        given = {name: value for name, value in locals().items() if name != "dataset"}
        from optim.evaluation.task import task_for  # noqa: PLC0415 -- LangGraph takes a second

        return task_for(dataset, **given)

    return task(name=dataset)(make)


TASKS: Mapping[str, Callable[..., Task]] = {
    name: _registered(name) for name, found in DATASETS.items() if found.generate is None
}
"""The tasks by the names of their data sets; a generated data set has no task by itself."""
