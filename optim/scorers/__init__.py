"""Define scorers, one file each. `as_scorer` returns a scorer by its name.

Every module of this folder is imported here, so a new scorer takes one new file with a class or a
function under `register`.
"""

from __future__ import annotations

from importlib import import_module
from inspect import iscoroutinefunction, signature
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Union

from optim.extras import named_object
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
from optim.scorers.dspy_metrics import from_dspy
from optim.scorers.inspect_scorers import InspectScorer, is_inspect_scorer
from pb_graph.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer as TheirScorer

__all__ = [
    "NAMES",
    "Score",
    "Scorer",
    "ScorerError",
    "ScorerLike",
    "as_scorer",
    "from_dspy",
    "register",
]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)


ScorerLike = Union[str, Scorer, type[Scorer], ScoreFunction, "TheirScorer"]
"""Whatever `as_scorer` takes."""


def as_scorer(value: ScorerLike) -> Scorer:
    """Return a scorer. Evaluation, tuning and `optim.e3.metric` take scorers by this one rule.

    Args:
        value: A name of `NAMES`; ``file.py:name`` or ``module:name`` of your own; a function of
            output and question, in this order; an object with ``score(output, question)`` or its
            class; or a scorer of Inspect, such as ``inspect_ai.scorer.match()``. Wrap a metric of
            DSPy's: ``from_dspy(metric)``.

    Raises:
        InputError: If the name is unknown, or a function takes something else.
        ScorerError: If the value is none of these.
        MissingPackageError: If the scorer's libraries are not installed.
    """
    if isinstance(value, str):
        made = SCORERS.get(value) or named_object(value)
        if made is None:
            msg = f"no scorer named {value!r}; available: {', '.join(NAMES)}"
            raise InputError(msg + did_you_mean(value, NAMES))
        return as_scorer(made)
    if isinstance(value, type):
        return as_scorer(value())
    if is_inspect_scorer(value):
        return InspectScorer(value)
    if isinstance(value, Scorer):
        return value
    if callable(value) and not iscoroutinefunction(value):
        _refuse_other_parameters(value)
        return FunctionScorer(value)
    msg = (
        f"{value!r} is not a scorer: give one of {', '.join(NAMES)}, an object with score(output, "
        "question), a function (output, question) that is not async, or a scorer of Inspect"
    )
    raise ScorerError(msg)


def _refuse_other_parameters(function: ScoreFunction) -> None:
    """Raise `InputError` if a function cannot be called with output and question."""
    try:
        parameters = signature(function)
        parameters.bind("output", "question")
    except TypeError:
        is_metric = True
    except ValueError:  # of a builtin without a signature
        return
    else:
        is_metric = "trace" in parameters.parameters
    if is_metric:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        msg = (
            f"a scorer takes (output, question), but {name} takes {parameters}. Wrap a metric of "
            "DSPy's: optim.scorers.from_dspy(metric)."
        )
        raise InputError(msg)
