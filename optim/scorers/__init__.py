"""Scorers, one file each: `scorer(name)` makes one.

Every module of this folder is imported here, so that a new file with a class or a function under
`register` is all that a new scorer takes.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from optim.scorers.base import NAMES, Score, Scorer, ScorerError, as_scorer, register, scorer

__all__ = ["NAMES", "Score", "Scorer", "ScorerError", "as_scorer", "register", "scorer"]

for _module in iter_modules(__path__, f"{__name__}."):
    if _module.name != f"{__name__}.math_process":  # a program of its own
        import_module(_module.name)
