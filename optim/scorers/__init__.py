"""Scorers, one file each. `scorer(name)` makes one.

Every module of this folder is imported here, so a new scorer takes one new file with a class or a
function under `register`.
"""

from __future__ import annotations

from importlib import import_module
from inspect import iscoroutinefunction
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from optim.scorers.base import (
    NAMES,
    FunctionScorer,
    Score,
    ScoreFunction,
    Scorer,
    ScorerError,
    make_registered,
    register,
)
from optim.scorers.inspect_scorers import InspectScorer, is_inspect_scorer

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer as TheirScorer

__all__ = ["NAMES", "Score", "Scorer", "ScorerError", "as_scorer", "register", "scorer"]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)


def scorer(name: str) -> Scorer:
    """Make the scorer with this name, with its defaults.

    Raises:
        InputError: There is no scorer with this name.
        ScorerError: Its libraries are not installed.
    """
    return as_scorer(name)


def as_scorer(value: str | Scorer | type[Scorer] | ScoreFunction | TheirScorer) -> Scorer:
    """Return a scorer for a name, a scorer, a class, or a function of output and question.

    A scorer of Inspect, such as ``inspect_ai.scorer.match()``, is taken as well.

    Raises:
        InputError: There is no scorer with this name.
        ScorerError: The value is none of these, or the scorer cannot be made.
    """
    if isinstance(value, str):
        return as_scorer(make_registered(value))
    if isinstance(value, type):
        return as_scorer(value())
    if is_inspect_scorer(value):
        return InspectScorer(value)
    if isinstance(value, Scorer):
        return value
    if callable(value) and not iscoroutinefunction(value):
        return FunctionScorer(value)
    msg = (
        f"{value!r} is no scorer: give one of {', '.join(NAMES)}, an object with score(output, "
        "question), a function (output, question) that is not async, or a scorer of Inspect"
    )
    raise ScorerError(msg)
