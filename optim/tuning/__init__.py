"""Tune the prompts of planner and solver, or the settings, for E³ on a dev split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.extras import on_first_use

if TYPE_CHECKING:
    from optim.tuning.options import optimizer
    from optim.tuning.program import GraphProgram
    from optim.tuning.run import TuneResult, tune

__all__ = ["GraphProgram", "TuneResult", "optimizer", "tune"]

__getattr__ = on_first_use(
    __name__,
    {"GraphProgram": "program", "TuneResult": "run", "optimizer": "options", "tune": "run"},
)
