"""Tell scorers apart: by name, and by the source of those that are your own."""

from __future__ import annotations

import inspect
from typing import Any

from optim.datasets.dataset import digest
from optim.extras import named_object
from optim.scorers.base import SCORERS, FunctionScorer
from optim.scorers.inspect_scorers import InspectScorer, is_inspect_scorer


def scorer_name(scorer: object) -> str:
    """Return the name of a scorer, else that of its function or class."""
    scorer = _own(scorer)
    if isinstance(scorer, str):
        return scorer
    if is_inspect_scorer(scorer):
        scorer = InspectScorer(scorer)
    name = getattr(scorer, "name", None) or getattr(scorer, "__name__", None)
    return str(name or type(scorer).__qualname__)


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
