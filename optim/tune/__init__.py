"""Tuning: what the planner is told, for E³ on a dev split."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optim.tune.loop import TuneResult, tune

__all__ = ["TuneResult", "tune"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- whatever the name stands for
    """Load on first use: the loop brings the optimizers, and they bring the bench's users."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module("optim.tune.loop"), name)
