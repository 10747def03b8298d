"""The data sets by name."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from optim.datasets import arithmetic, gsm8k, jsonl, math500, natural_instructions, travelplanner
from pb_graph.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.datasets.spec import DataSet

__all__ = ["DATASETS", "data_set"]

_MODULES = (math500, gsm8k, natural_instructions, travelplanner, jsonl, arithmetic)
DATASETS: Mapping[str, DataSet] = MappingProxyType(
    {module.DATASET.name: module.DATASET for module in _MODULES}
)


def data_set(name: str) -> DataSet:
    """Give the data set of that name.

    Raises:
        InputError: There is none; the error names those there are.
    """
    if name not in DATASETS:
        msg = f"no data set named {name!r}; there are: {', '.join(DATASETS)}"
        raise InputError(msg)
    return DATASETS[name]
