"""Measures and improves the graph: E³, data sets, scorers, evaluation and tuning.

::

    from optim import Experiment, evaluate, load, read_records, report, tune

The names load on first use, so that importing the package stays light. ``evaluate``, ``report`` and
``tune`` are packages that are called like the function of their name: `optim.evaluate.evaluate`,
`optim.report.report` and `optim.tune.tune`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.extras import imported

if TYPE_CHECKING:
    from optim.datasets import load
    from optim.evaluate import Experiment, evaluate
    from optim.records import read_records
    from optim.report import report
    from optim.tune import tune

_HOMES = {"Experiment": "evaluate", "load": "datasets", "read_records": "records"}
_CALLABLE = ("evaluate", "report", "tune")

__all__ = ["Experiment", "evaluate", "load", "read_records", "report", "tune"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- whatever the name stands for
    if name in _CALLABLE:
        return imported(f"{__name__}.{name}")
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(imported(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
