"""Define scorers, one file each. `as_scorer` returns a scorer by its name.

Every module of this folder is imported here, so a new scorer takes one new file with a class or a
function under `register`.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Union

from optim.datasets.dataset import digest
from optim.extras import named_object
from optim.scorers.adapters import InspectScorer, from_dspy, is_inspect_scorer
from optim.scorers.base import (
    NAMES,
    SCORERS,
    FunctionScorer,
    Score,
    ScoreFunction,
    Scorer,
    ScorerError,
    name_of,
    register,
)  # fmt: skip
from pb_graph.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from inspect_ai.scorer import Scorer as TheirScorer

__all__ = [
    "NAMES", "Score", "Scorer", "ScorerError", "ScorerLike", "as_scorer", "from_dspy", "register",
]  # fmt: skip

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
    if isinstance(value, Scorer):
        return value
    if is_inspect_scorer(value):
        return InspectScorer(value)
    if not callable(value) or inspect.iscoroutinefunction(value):
        msg = (
            f"{value!r} is not a scorer: give one of {', '.join(NAMES)}, an object with "
            "score(output, question), a function (output, question) that is not async, or a "
            "scorer of Inspect"
        )
        raise ScorerError(msg)
    try:
        parameters = inspect.signature(value)
        if "trace" in parameters.bind("output", "question").signature.parameters:
            raise TypeError  # noqa: TRY301 -- a metric of DSPy
    except TypeError:
        msg = (
            f"a scorer takes (output, question), but {name_of(value)} takes {parameters}. Wrap a "
            "metric of DSPy's: optim.scorers.from_dspy(metric)."
        )
        raise InputError(msg) from None
    except ValueError:  # a builtin without a signature
        pass
    return FunctionScorer(value)


def scorer_name(scorer: object) -> str:
    """Return the name of a scorer, else that of its function or class."""
    scorer = _own(scorer)
    if isinstance(scorer, str):
        return scorer
    return InspectScorer(scorer).name if is_inspect_scorer(scorer) else name_of(scorer)


def scorer_code(scorer: object) -> str:
    """Return a digest of the module in which a scorer of the user's own is written, or "".

    The digest covers the whole module, because helpers change scores, too. For a scorer of Inspect
    the arguments are digested. Registered scorers have no digest.
    """
    scorer = _own(scorer)
    if isinstance(scorer, str):
        return ""
    if isinstance(scorer, FunctionScorer):
        scorer = inspect.unwrap(scorer.function)
    if is_inspect_scorer(scorer):
        return InspectScorer(scorer).arguments
    has_source = inspect.isroutine(scorer) or isinstance(scorer, type)
    source: Any = scorer if has_source else type(scorer)
    try:
        lines, number = inspect.findsource(source)
    except (OSError, TypeError):  # typed at a prompt, or not in Python
        return ""
    return digest([source.__qualname__, number, "".join(lines)])


def _own(scorer: object) -> object:
    """Return the object that ``file.py:name`` names; anything else is returned as it is."""
    is_known = not isinstance(scorer, str) or scorer in SCORERS
    return scorer if is_known else named_object(str(scorer)) or scorer
