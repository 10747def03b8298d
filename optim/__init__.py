"""Measure and improve the graph: E³, data sets, scorers, evaluation and tuning.

::

    from optim import Experiment, Method, Questions, evaluate, load, read_records, report, tune

The names load on first use, so that importing the package stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.extras import on_first_use

if TYPE_CHECKING:
    from optim.datasets import Questions, load
    from optim.evaluation import Experiment, evaluate
    from optim.methods import Method
    from optim.records import read_records
    from optim.reporting import report
    from optim.tuning import tune

__all__ = [
    "Experiment", "Method", "Questions", "evaluate", "load", "read_records", "report", "tune",
]  # fmt: skip
__getattr__ = on_first_use(
    __name__,
    {"Experiment": "evaluation", "evaluate": "evaluation", "load": "datasets"}
    | {"Method": "methods", "Questions": "datasets"}
    | {"read_records": "records", "report": "reporting", "tune": "tuning"},
)


def __dir__() -> list[str]:
    return __all__
