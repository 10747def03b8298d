"""Figures that the paper printed, to show beside measured ones."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import pandas as pd

_NAMES = {
    "math500": "MATH-500",
    "natural_instructions": "NaturalInstructions",
    "travelplanner": "TravelPlanner",
}

Table = Literal["rows", "certaindex", "latency", "budget_cells", "a_over_t"]


def paper_figures(table: Table = "rows", dataset: str | None = None) -> pd.DataFrame:
    """Return one of the paper's tables.

    Args:
        table: ``rows``: the 240 rows of the six result tables (score and its standard deviation
            over five runs in percent, completion tokens, E³ as printed); ``certaindex``: the same
            of its early-stopping baseline; ``latency``: seconds, those of planning apart;
            ``budget_cells``: tokens at 20 budgets B_init + B_per_level · level;
            ``a_over_t``: the 120 cells of its comparison of E³ and A/T (times 100).
        dataset: Name of our data set; None for all. Latency and budgets are those of MATH-500.
    """
    rows = pd.DataFrame(_document()[table])
    if dataset is None:
        return rows
    if "dataset" not in rows:
        return rows if dataset == "math500" else rows.iloc[:0]
    return rows[rows.dataset == _NAMES.get(dataset)]


def notes() -> list[str]:
    """Return what a reader of the paper's figures has to know."""
    found: list[str] = _document()["notes"]
    return found


@cache
def _document() -> dict[str, Any]:
    text = files("optim.reporting").joinpath("published.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document
