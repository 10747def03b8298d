"""The former name of `optim.tune.evaluator`."""

from optim.tune.evaluator import Evaluator, OutageError, Result

__all__ = ["Bench", "OutageError", "Result"]

Bench = Evaluator
