"""Registers a task for each data set; what it does is loaded when it is made."""

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
        settings: str | dict[str, Any] | None = None,
        program: str | None = None,
        data: str | None = None,
        split: str | None = None,
        limit: int | None = None,
        levels: int | str | Sequence[int] | None = None,
        scorer: str | None = None,
        estimate_level: bool = False,
        seed: int = 0,
        skip_bad_rows: bool = False,
    ) -> Task:
        """Make the task of one method.

        Args:
            method: A name of `optim.methods.NAMES`.
            settings: Of the graph, as JSON or a mapping: ``{"cutoff": 1500}``.
            program: A file of `pb-optim tune`.
            data: A local file instead of the hub.
            split: Another split of the hub's than the usual one.
            limit: How many questions, drawn evenly over the levels. Inspect's ``--limit`` takes
                the first of these.
            levels: Only these levels: a number, several, or text such as ``1,2``.
            scorer: Name of another scorer than the data set's own.
            estimate_level: Let the planner estimate a question's level, and pay for that.
            seed: Of the draw.
            skip_bad_rows: Leave out rows that are no questions.
        """
        given = {name: value for name, value in locals().items() if name != "dataset"}
        from optim.evaluation.registered import task_for  # noqa: PLC0415 -- LangGraph takes a second

        return task_for(dataset, **given)

    return task(name=dataset)(make)


TASKS: Mapping[str, Callable[..., Task]] = {name: _registered(name) for name in DATASETS}
"""The tasks by the names of their data sets."""
