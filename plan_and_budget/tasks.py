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
    # Inspect reads the options of -T off this signature.
    def make(  # noqa: PLR0913, PLR0917 -- as `task_for`
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
    ) -> Task:
        given = {name: value for name, value in locals().items() if name != "dataset"}
        from optim.evaluate.registered import task_for  # noqa: PLC0415 -- LangGraph takes a second

        return task_for(dataset, **given)

    return task(name=dataset)(make)


TASKS: Mapping[str, Callable[..., Task]] = {name: _registered(name) for name in DATASETS}
"""The tasks by the names of their data sets."""
