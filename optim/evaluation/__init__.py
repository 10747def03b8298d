"""Evaluate methods: `evaluate(Experiment(...))` answers, scores, logs and sums up.

The exported names load on first use: `optim.tuning` uses the store and the models without Inspect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.extras import on_first_use

if TYPE_CHECKING:
    from optim.evaluation.experiment import Experiment
    from optim.evaluation.run import Evaluation, EvaluationError, evaluate, on_ray

__all__ = ["Evaluation", "EvaluationError", "Experiment", "evaluate", "on_ray"]

__getattr__ = on_first_use(
    __name__,
    {"Experiment": "experiment"}
    | dict.fromkeys(("Evaluation", "EvaluationError", "evaluate", "on_ray"), "run"),
)
