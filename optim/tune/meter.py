"""The former place of a tuning's limits."""

from optim.evaluate.limits import BudgetSpentError, Limits, Meter, Spent

__all__ = ["BudgetSpentError", "Limits", "Meter", "Spent"]
