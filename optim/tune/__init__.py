"""Tuning: what the planner is told, for E³ on a dev split."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optim.program import GraphProgram
    from optim.tune.loop import Silence
    from optim.tune.meter import Limits
    from optim.tune.tuning import TuneResult, tune

__all__ = ["GraphProgram", "Limits", "Silence", "TuneResult", "tune"]

_HOMES = {
    "GraphProgram": "optim.program",
    "Limits": "optim.tune.meter",
    "Silence": "optim.tune.loop",
    "TuneResult": "optim.tune.tuning",
    "tune": "optim.tune.tuning",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- whatever the name stands for
    """Load on first use: the loop brings the optimizers, and they bring the bench's users."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOMES[name]), name)
