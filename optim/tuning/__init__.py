"""Tune what the planner and the solver are told, or the settings, for E³ on a dev split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.extras import import_or_explain

if TYPE_CHECKING:
    from optim.tuning.options import TuneBudget, optimizer
    from optim.tuning.program import GraphProgram
    from optim.tuning.run import TuneResult, tune

__all__ = ["GraphProgram", "TuneBudget", "TuneResult", "optimizer", "tune"]

_HOMES = {"GraphProgram": "program", "TuneBudget": "options", "optimizer": "options"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- loads on first use: DSPy takes a second
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_or_explain(f"{__name__}.{_HOMES.get(name, 'run')}"), name)
