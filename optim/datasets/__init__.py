"""Data sets, one file each: `load(name)` gives the questions of one."""

from __future__ import annotations

from optim.datasets.loading import BadRow, BadRowsError, SkippedRowsWarning, load
from optim.datasets.question import Question
from optim.datasets.registry import DATASETS, data_set
from optim.datasets.sampling import exemplars, sample
from optim.datasets.spec import DataSet, HubSource

__all__ = [
    "DATASETS",
    "BadRow",
    "BadRowsError",
    "DataSet",
    "HubSource",
    "Question",
    "SkippedRowsWarning",
    "data_set",
    "exemplars",
    "load",
    "sample",
]
