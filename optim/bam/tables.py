"""The Budget Allocation Model in tables: what each split is worth, and what answers say of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from optim.statistics.estimates import PERCENT

if TYPE_CHECKING:
    from optim.bam.calibrate import Calibration
    from optim.bam.power_law import Estimate
    from optim.bam.simulate import Outcome
    from optim.summary import Cells

__all__ = ["MEASURES", "answers_and_fit", "by_budget", "parameters"]

MEASURES: Final = {
    "utility": "Utility of a query (Eq. 4)",
    "accuracy": "Accuracy, %",
    "e3": "E³, with every token of the budget spent",
}
"""What `by_budget` shows, and what it means."""

_DIGITS = {"utility": 4, "accuracy": 2, "e3": 3}


def by_budget(outcomes: Sequence[Outcome], measure: str) -> list[Cells]:
    """Give one measure of each rule, a column for each budget, with standard errors.

    Args:
        outcomes: What was simulated.
        measure: ``utility``, ``accuracy`` or ``e3``.
    """
    digits = _DIGITS[measure]
    rows: dict[str, dict[str, str | int | float | None]] = {}
    for outcome in outcomes:
        found = outcome.to_dict()
        value, error = found[measure], found[f"{measure}_se"]
        row = rows.setdefault(outcome.rule, {"rule": outcome.rule.replace("_", " ")})
        row[f"B={outcome.budget}"] = f"{value:.{digits}f} ±{error:.{digits}f}"
    return list(rows.values())


def parameters(found: Calibration) -> list[Cells]:
    """Give c, beta and aleatoric uncertainty of each level, with intervals, and their source."""
    return [
        {
            "level": fit.level,
            "source": fit.source,
            "questions": max((cell.questions for cell in fit.cells), default=0),
            "budgets": len(fit.cells),
            "c": _with_interval(fit.curve.c),
            "beta": _with_interval(fit.curve.beta),
            "aleatoric": _with_interval(fit.curve.aleatoric),
        }
        for fit in found.levels
    ]


def answers_and_fit(found: Calibration) -> list[Cells]:
    """Give the accuracy that was measured beside what the fit makes of it."""
    return [
        {
            "level": fit.level,
            "budget": cell.tokens,
            "questions": cell.questions,
            "accuracy": cell.accuracy,
            "fitted": PERCENT * fit.curve.accuracy(cell.tokens),
        }
        for fit in found.levels
        for cell in fit.cells
    ]


def _with_interval(found: Estimate) -> str:
    if found.lower == found.upper:
        return f"{found.value:.3g}"
    return f"{found.value:.3g} ({found.lower:.3g} – {found.upper:.3g})"  # noqa: RUF001 -- a range
