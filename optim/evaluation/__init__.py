"""Evaluates methods: `evaluate(Experiment(...))` answers, scores, logs, and sums up.

The exported names load on first use: `optim.tuning` uses the store and the limits without Inspect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.extras import on_first_use

if TYPE_CHECKING:
    from optim.evaluation.experiment import Experiment
    from optim.evaluation.launch import evaluate
    from optim.evaluation.run import Evaluation, EvaluationError

__all__ = ["Evaluation", "EvaluationError", "Experiment", "evaluate"]

__getattr__ = on_first_use(
    __name__,
    {"Experiment": "experiment", "evaluate": "launch"}
    | dict.fromkeys(("Evaluation", "EvaluationError"), "run"),
)
