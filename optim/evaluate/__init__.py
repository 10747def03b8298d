"""Evaluates methods: `evaluate(Experiment(...))` answers, scores, logs, and sums up.

What is exported loads when it is asked for: `optim.tune` uses the cache and the limits without
Inspect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim import make_callable
from optim.extras import imported

if TYPE_CHECKING:
    from optim.evaluate.experiment import Experiment
    from optim.evaluate.run import Evaluation, EvaluationError, evaluate

__all__ = ["Evaluation", "EvaluationError", "Experiment", "evaluate"]

make_callable(__name__)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    module = "experiment" if name == "Experiment" else "run"
    return getattr(imported(f"{__name__}.{module}"), name)
