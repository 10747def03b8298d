"""Tuning: what the planner is told, for E³ on a dev split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import make_callable, on_first_use

if TYPE_CHECKING:
    from optim.evaluation.limits import Limits
    from optim.tune.program import GraphProgram
    from optim.tune.search import Silence
    from optim.tune.tuning import TuneResult, tune

__all__ = ["GraphProgram", "Limits", "Silence", "TuneResult", "tune"]

make_callable(__name__)
# The loop brings the optimizers, and they bring DSPy.
__getattr__ = on_first_use(
    __name__,
    {"GraphProgram": "program", "Silence": "search"}
    | dict.fromkeys(("Limits", "TuneResult", "tune"), "tuning"),
)
