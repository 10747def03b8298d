"""Scorers, one file each. `scorer(name)` makes one; its libraries load only then."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from optim.scorers.score import Question, Score, Scorer, ScorerError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NAMES", "Question", "Score", "Scorer", "ScorerError", "scorer"]

_MAKERS: dict[str, tuple[str, str]] = {
    "math": ("optim.scorers.mathematics", "MathScorer"),
    "rouge": ("optim.scorers.rouge", "RougeScorer"),
    "rouge_compatible": ("optim.scorers.rouge", "compatible"),
    "travelplanner": ("optim.scorers.travelplanner", "TravelPlannerScorer"),
}
NAMES = tuple(_MAKERS)


def scorer(name: str) -> Scorer:
    """Make the scorer of that name, with its defaults.

    Raises:
        ScorerError: No such scorer, or its libraries are not installed.
    """
    try:
        module, maker = _MAKERS[name]
    except KeyError:
        msg = f"no scorer named {name!r}; there are: {', '.join(NAMES)}"
        raise ScorerError(msg) from None
    try:
        make: Callable[[], Scorer] = getattr(import_module(module), maker)
        return make()
    except ImportError as error:
        msg = f"the scorer {name!r} needs {error.name}: pip install 'plan-and-budget[eval]'"
        raise ScorerError(msg) from error
