"""Tune what the planner and the solver are told, or the settings, for E³ on a dev split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import on_first_use

if TYPE_CHECKING:
    from optim.evaluation.limits import Limits
    from optim.tuning.program import GraphProgram
    from optim.tuning.run import TuneResult, tune
    from optim.tuning.search import Silence

__all__ = ["GraphProgram", "Limits", "Silence", "TuneResult", "tune"]

# The loop brings the optimizers, and they bring DSPy.
__getattr__ = on_first_use(
    __name__,
    {"GraphProgram": "program", "Silence": "search"}
    | dict.fromkeys(("Limits", "TuneResult", "tune"), "run"),
)
