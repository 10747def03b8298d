"""Data sets, one file each: `load(name)` gives the questions of one.

Every module of this folder is imported here, so that a new file with a function under `@dataset`
is all that a new data set takes.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from optim.datasets.dataset import DATASETS, DataSet, HubSource, Question, data_set, dataset
from optim.datasets.loading import BadRow, BadRowsError, level_examples, load, sample

__all__ = [
    "DATASETS",
    "BadRow",
    "BadRowsError",
    "DataSet",
    "HubSource",
    "Question",
    "data_set",
    "dataset",
    "level_examples",
    "load",
    "sample",
]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
