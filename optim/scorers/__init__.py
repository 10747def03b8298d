"""Define scorers, one file each. `as_scorer` returns a scorer by its name.

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
    SCORERS,
    FunctionScorer,
    Score,
    ScoreFunction,
    Scorer,
    ScorerError,
    register,
)
from optim.scorers.inspect_scorers import InspectScorer, is_inspect_scorer
from pb_graph.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer as TheirScorer

__all__ = ["NAMES", "Score", "Scorer", "ScorerError", "as_scorer", "register"]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)


def as_scorer(value: str | Scorer | type[Scorer] | ScoreFunction | TheirScorer) -> Scorer:
    """Return a scorer for a name, a scorer, a class, or a function of output and question.

    A scorer of Inspect, such as ``inspect_ai.scorer.match()``, is taken as well.

    Raises:
        InputError: If the name is unknown.
        ScorerError: If the value is none of these.
        MissingPackageError: If the scorer's libraries are not installed.
    """
    if isinstance(value, str):
        if value not in SCORERS:
            msg = f"no scorer named {value!r}; available: {', '.join(NAMES)}"
            raise InputError(msg + did_you_mean(value, NAMES))
        return as_scorer(SCORERS[value])
    if isinstance(value, type):
        return as_scorer(value())
    if is_inspect_scorer(value):
        return InspectScorer(value)
    if isinstance(value, Scorer):
        return value
    if callable(value) and not iscoroutinefunction(value):
        return FunctionScorer(value)
    msg = (
        f"{value!r} is not a scorer: give one of {', '.join(NAMES)}, an object with score(output, "
        "question), a function (output, question) that is not async, or a scorer of Inspect"
    )
    raise ScorerError(msg)
