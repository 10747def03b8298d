"""Tuning: what the planner is told, for E³ on a dev split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim import make_callable
from optim.extras import imported

if TYPE_CHECKING:
    from optim.evaluate.limits import Limits
    from optim.tune.program import GraphProgram
    from optim.tune.search import NullCallback as Silence
    from optim.tune.tuning import TuneResult, tune

__all__ = ["GraphProgram", "Limits", "Silence", "TuneResult", "tune"]

make_callable(__name__)

_HOMES = {
    "GraphProgram": "optim.tune.program",
    "Limits": "optim.evaluate.limits",
    "Silence": "optim.tune.search",
    "TuneResult": "optim.tune.tuning",
    "tune": "optim.tune.tuning",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- whatever the name stands for
    """Load on first use: the loop brings the optimizers, and they bring DSPy."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    home = imported(_HOMES[name])
    return getattr(home, "NullCallback" if name == "Silence" else name)
