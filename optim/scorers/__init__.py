"""Define scorers; `as_scorer` returns a scorer by its name.

Every module of this folder is imported here, so a new scorer takes one new file with a class or a
function under `register`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from optim.scorers.scorer import (
    NAMES,
    Score,
    Scorer,
    ScorerError,
    ScorerLike,
    as_scorer,
    from_dspy,
    register,
    scorer_code,
    scorer_name,
)

__all__ = [
    "NAMES", "Score", "Scorer", "ScorerError", "ScorerLike", "as_scorer", "from_dspy", "register",
    "scorer_code", "scorer_name",
]  # fmt: skip

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
