"""The names of `pb_graph`, under the name that the distribution is installed by.

``import plan_and_budget`` is ``import pb_graph``. Inspect finds the tasks of `optim` in
`plan_and_budget.tasks`, since Inspect names tasks after their distribution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pb_graph

if TYPE_CHECKING:
    from pb_graph import *  # noqa: F403

__all__ = pb_graph.__all__


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- whatever the name stands for
    try:
        return getattr(pb_graph, name)
    except AttributeError:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg) from None


def __dir__() -> list[str]:
    return __all__
