"""Data sets: `load(name)` returns the questions of one.

Every module of this folder is imported here, so a new data set takes one new file with a function
under `@dataset`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from optim.datasets.dataset import DATASETS, DataSet, HubSource, Question, data_set, dataset
from optim.datasets.questions import Questions, load, sample

__all__ = [
    "DATASETS", "DataSet", "HubSource", "Question", "Questions", "data_set", "dataset", "load",
    "sample",
]  # fmt: skip

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
